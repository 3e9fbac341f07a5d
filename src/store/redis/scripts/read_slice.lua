-- Reads a slice, as one gateway sees it.
-- KEYS  1 members  2 the gateway's held set  3 gateways  4 fence  5 notes on members, if the set has
--       some  6 fans  7 the gateway's held fans, both of a live
-- ARGV  1 gateway
-- Returns  {members, fans, fence or empty, number of the gateway's entry or empty, held, held fans,
--          members with a note or empty, other gateways…}
local function card(key)
  return key and redis.call('SCARD', key) or 0
end
local reply = {
  card(KEYS[1]), card(KEYS[6]), redis.call('GET', KEYS[4]) or '', '', card(KEYS[2]), card(KEYS[7]),
  KEYS[5] and whole(redis.call('HLEN', KEYS[5])) or '',
}
local all = redis.call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  local number = entry_number(all[i + 1])
  if all[i] == ARGV[1] then
    reply[4] = number or ''
  elseif number then
    reply[#reply + 1] = all[i]
  end
end
return reply
