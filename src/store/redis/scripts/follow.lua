-- Adds one end of an edge. An edge that is there keeps its time.
-- KEYS  1 edges of one user
-- ARGV  1 the other user  2 the time, or empty for now
-- Returns  {1 if it is new, its time}
local at = ARGV[2]
if at == '' then
  at = whole(clock())
end
local added = redis.call('ZADD', KEYS[1], 'NX', at, ARGV[1])
return { added, redis.call('ZSCORE', KEYS[1], ARGV[1]) }
