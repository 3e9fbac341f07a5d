-- Appends events to a stream.
-- KEYS  1 stream
-- ARGV  1 about how many events the stream keeps  2 lifetime of an event, s; 0: for ever
--       then for each event: id, type, the name of the field that says what it is about, that field, data
-- Returns  1
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[1])
for i = 3, #ARGV, 5 do
  append_event(KEYS[1], i)
end
if ARGV[2] ~= '0' then
  keep_for(KEYS[1], ARGV[2])
end
return 1
