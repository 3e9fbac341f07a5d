-- Reads a slice, as one gateway sees it.
-- KEYS  1 slice  2 the gateway's held set  3 gateways  4 fence  5 since when members are there, if the set keeps it
-- ARGV  1 gateway
-- Returns  {card, fence or empty, number of the gateway's entry or empty, held, members with a time or empty,
--           other gateways…}
local reply = {
  redis.call('SCARD', KEYS[1]), redis.call('GET', KEYS[4]) or '', '', redis.call('SCARD', KEYS[2]),
  KEYS[5] and whole(redis.call('HLEN', KEYS[5])) or '',
}
local all = redis.call('HGETALL', KEYS[3])
for i = 1, #all, 2 do
  local number = entry_number(all[i + 1])
  if all[i] == ARGV[1] then
    reply[3] = number or ''
  elseif number then
    reply[#reply + 1] = all[i]
  end
end
return reply
