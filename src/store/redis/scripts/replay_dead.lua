-- Takes an event out of the events that a webhook did not take, and appends it to those that the webhook is sent again.
-- KEYS  1 events sent again  2 events given up
-- ARGV  1 entry  2 lifetime of an event that is sent again, s
-- Returns  1 if the script moved the event, 0 if there is none
local found = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])
if #found == 0 then
  return 0
end
local event = {}
for i = 1, #found[1][2], 2 do
  local name = found[1][2][i]
  if name ~= 'why' and name ~= 'attempts' then
    event[#event + 1] = name
    event[#event + 1] = found[1][2][i + 1]
  end
end
redis.call('XADD', KEYS[1], '*', unpack(event))
keep_for(KEYS[1], ARGV[2])
redis.call('XDEL', KEYS[2], ARGV[1])
return 1
