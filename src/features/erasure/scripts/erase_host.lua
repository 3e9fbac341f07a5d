-- Takes an erased user out of the hosts of a live. Gateways that hold the live find the new version.
-- KEYS  1 record
-- ARGV  1 user
-- Returns  1, or 0 if the user is no host
local state, hosts, last = unpack(redis.call('HMGET', KEYS[1], 'state', 'hosts', 'version'))
local kept, found = {}, 0
for host in string.gmatch(hosts or '', '%S+') do
  if host == ARGV[1] then
    found = 1
  else
    kept[#kept + 1] = host
  end
end
if found == 0 then
  return 0
end
-- This write comes first: a full Redis accepts it (see basics.lua).
redis.call('HDEL', KEYS[1], 'hosts')
put_given(KEYS[1], { 'hosts', table.concat(kept, ' ') })
if state == 'open' then
  redis.call('HSET', KEYS[1], 'version', whole(math.max((tonumber(last or '0') or 0) + 1, (clock()))))
end
return 1
