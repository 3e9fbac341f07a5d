-- Moves an event to the events given up, if the gateway is the sender.
-- KEYS  1 stream  2 turn  3 events given up
-- ARGV  1 gateway  2 group  3 entry  4 about how many to keep  5 id  6 type
--       7 the name of the field that says what it is about  8 that field  9 data  10 why  11 attempts
-- Returns  1 if the event no longer waits, 0 if the gateway is not the sender
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
if redis.call('XACK', KEYS[1], ARGV[2], ARGV[3]) == 0 then
  -- An earlier call, whose answer was lost, already noted that the event arrived, or moved the event.
  return 1
end
redis.call('XTRIM', KEYS[3], 'MAXLEN', '~', ARGV[4])
redis.call('XADD', KEYS[3], '*', 'id', ARGV[5], 'type', ARGV[6], ARGV[7], ARGV[8], 'data', ARGV[9],
  'why', ARGV[10], 'attempts', ARGV[11])
return 1
