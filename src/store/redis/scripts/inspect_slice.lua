-- Reads a slice for an audit.
-- KEYS  1 gateways  2 fence  3 members  4 notes on members, if the set has some
--       5 fans, of a live
-- Returns  {fence or empty, members, fans, members with a note or empty, then for each entry: gateway, number…}
local reply = { redis.call('GET', KEYS[2]) or '', redis.call('SCARD', KEYS[3]),
  KEYS[5] and redis.call('SCARD', KEYS[5]) or 0, KEYS[4] and whole(redis.call('HLEN', KEYS[4])) or '' }
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local number = entry_number(all[i + 1])
  if number then
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = number
  end
end
return reply
