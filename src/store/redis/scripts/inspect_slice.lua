-- Reads a slice for an audit.
-- KEYS  1 members  2 claims  3 gateways  4 fence  5 fans, of a live
-- Returns  {fence or nil, users with a claim, members, fans, of a live, {gateway, entry, …}}
local reply = { redis.call('GET', KEYS[4]), redis.call('HLEN', KEYS[2]), redis.call('SCARD', KEYS[1]) }
if KEYS[5] then
  reply[#reply + 1] = redis.call('SCARD', KEYS[5])
end
reply[#reply + 1] = redis.call('HGETALL', KEYS[3])
return reply
