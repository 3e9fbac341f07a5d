-- Reads how a webhook stands.
-- KEYS  1 stream  2 events sent again  3 events given up  4 status
-- ARGV  1 group
-- Returns  {entries that wait, events given up, names and values of the status…}
local waiting = 0
for i = 1, 2 do
  local group = find_group(KEYS[i], ARGV[1])
  if group then
    waiting = waiting + entries_waiting(group, redis.call('XLEN', KEYS[i]))
  end
end
return { whole(waiting), redis.call('XLEN', KEYS[3]), unpack(redis.call('HGETALL', KEYS[4])) }
