-- Adds one end of an edge of the follow graph. An edge that is there already keeps its time.
-- KEYS  1 edges of one user
-- ARGV  1 the other user  2 the time, or empty for now  3 the latest time at which the call may run
-- Returns  {'done', 1 if the edge is new, its time}, {'late', now}
local now = clock()
if now > tonumber(ARGV[3]) then
  return { 'late', whole(now) }
end
local at = ARGV[2]
if at == '' then
  at = whole(now)
end
local added = redis.call('ZADD', KEYS[1], 'NX', at, ARGV[1])
return { 'done', added, redis.call('ZSCORE', KEYS[1], ARGV[1]) }
