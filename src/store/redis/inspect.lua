-- Reads a hash of gateways and its fence, for whoever looks into the store from outside.
-- KEYS  1 hash  2 fence  [3 slice]
-- Says  {now, fence or empty, card of the slice or 0, field, value, …}
local reply = { whole(clock()), redis.call('GET', KEYS[2]) or '', KEYS[3] and redis.call('SCARD', KEYS[3]) or 0 }
for _, piece in ipairs(redis.call('HGETALL', KEYS[1])) do
  reply[#reply + 1] = piece
end
return reply
