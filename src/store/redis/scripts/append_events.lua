-- Appends events to the stream.
-- KEYS  1 stream
-- ARGV  1 about how many events the stream keeps, then for each event: id, type, live, data
-- Returns  1
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('XTRIM', KEYS[1], 'MAXLEN', '~', ARGV[1])
for i = 2, #ARGV, 4 do
  redis.call('XADD', KEYS[1], '*', 'id', ARGV[i], 'type', ARGV[i + 1], 'live_id', ARGV[i + 2], 'data', ARGV[i + 3])
end
return 1
