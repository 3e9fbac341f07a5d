-- Appends events to a stream. Leaves out those that it appended a moment ago, if it is to remember them.
-- KEYS  1 stream  2 the ids of the events that were appended a moment ago, and  3 the audit trail, which also gets its
--       events; both may be left out
-- ARGV  1 about how many events the stream keeps  2 lifetime of an event, s; 0: for ever
--       3 how long an id is remembered, s
--       then for each event: id, type, the name of the field that says what it is about, that field, data
-- Returns  1
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
for i = 1, #KEYS, 2 do
  redis.call('XTRIM', KEYS[i], 'MAXLEN', '~', ARGV[1])
end
local now = clock()
if KEYS[2] then
  forget_ended(KEYS[2], now)
end
for i = 4, #ARGV, 5 do
  if not KEYS[2] or redis.call('ZADD', KEYS[2], 'NX', whole(now + ARGV[3] * 1000), ARGV[i]) == 1 then
    append_event(KEYS[1], i)
    if KEYS[3] and ARGV[i + 1] == 'audit.recorded' then
      append_event(KEYS[3], i)
    end
  end
end
if KEYS[2] then
  redis.call('EXPIRE', KEYS[2], ARGV[3])
end
if ARGV[2] ~= '0' then
  keep_for(KEYS[1], ARGV[2])
end
return 1
