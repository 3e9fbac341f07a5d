-- Adds statuses to a timeline, and drops the oldest beyond the limit.
-- KEYS  1 timeline
-- ARGV  1 the latest time at which the call may run  2 how many to keep  3 score  4 status  [5 score  6 status …]
-- Returns  {'done'}, {'late', now}
local now = clock()
if now > tonumber(ARGV[1]) then
  return { 'late', whole(now) }
end
redis.call('ZADD', KEYS[1], unpack(ARGV, 3))
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[2])
if over > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, over - 1)
end
return { 'done' }
