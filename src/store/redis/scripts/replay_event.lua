-- Takes an event out of the events that were given up, and appends it to the stream.
-- KEYS  1 stream  2 events given up
-- ARGV  1 entry
-- Returns  1 if the script moved the event, 0 if there is none
local found = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])
if #found == 0 then
  return 0
end
local event = {}
for i = 1, #found[1][2], 2 do
  event[found[1][2][i]] = found[1][2][i + 1]
end
redis.call('XADD', KEYS[1], '*', 'id', event.id or '', 'type', event.type or '', 'live_id', event.live_id or '',
  'data', event.data or '')
redis.call('XDEL', KEYS[2], ARGV[1])
return 1
