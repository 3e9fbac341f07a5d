-- Removes one end of an edge.
-- KEYS  1 edges of one user
-- ARGV  1 the other user  2 the latest time at which this may be done
-- Returns  {'done', 1 if it was there}, {'late', now}
local now = clock()
if now > tonumber(ARGV[2]) then
  return { 'late', whole(now) }
end
return { 'done', redis.call('ZREM', KEYS[1], ARGV[1]) }
