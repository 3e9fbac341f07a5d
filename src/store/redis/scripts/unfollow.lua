-- Removes one end of an edge of the follow graph.
-- KEYS  1 edges of one user
-- ARGV  1 the other user  2 the latest time at which the call may run
-- Returns  {'done', 1 if the edge was there}, {'late', now}
local now = clock()
if now > tonumber(ARGV[2]) then
  return { 'late', whole(now) }
end
return { 'done', redis.call('ZREM', KEYS[1], ARGV[1]) }
