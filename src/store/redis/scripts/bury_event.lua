-- Moves an event to the events given up, if the gateway is the sender.
-- KEYS  1 stream  2 turn  3 events given up
-- ARGV  1 gateway  2 group  3 entry  4 about how many to keep  5 lifetime of an event given up, s  6 id  7 type
--       8 the name of the field that says what it is about  9 that field  10 data  11 why  12 attempts
--       13 1 if an erasure deletes entries of the stream
-- Returns  {'buried'} | {'gone'}, which waits no more either: it was erased | {'other'}, which is the sender
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return { 'other' }
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
if redis.call('XACK', KEYS[1], ARGV[2], ARGV[3]) == 0 then
  -- An earlier call, whose answer was lost, already noted that the event arrived, or moved the event.
  return { 'buried' }
end
if ARGV[13] == '1' and #redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3]) == 0 then
  -- Nobody may bring back what was erased.
  return { 'gone' }
end
redis.call('XTRIM', KEYS[3], 'MAXLEN', '~', ARGV[4])
redis.call('XADD', KEYS[3], '*', 'id', ARGV[6], 'type', ARGV[7], ARGV[8], ARGV[9], 'data', ARGV[10],
  'why', ARGV[11], 'attempts', ARGV[12])
keep_for(KEYS[3], ARGV[5])
return { 'buried' }
