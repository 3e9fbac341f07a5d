-- Ends the erasure of a user. From then on only the report and a digest are left, which do not name the user.
-- KEYS  1 stream of jobs  2 their progress  3 user -> erasure  4 the report
--       5 digests of erased users, scored by the end
-- ARGV  1 worker  2 the group  3 id of the job  4 user  5 what was found  6 lifetime of the report, s
--       7 the user's digest  8 lifetime of digests, s
-- Returns  1, or 0 if the job belongs to another worker
if not finish_job(KEYS, ARGV) then
  return 0
end
redis.call('HDEL', KEYS[3], ARGV[4])
local now = (clock())
redis.call('HSET', KEYS[4], 'ended_at', whole(now), 'found', ARGV[5])
redis.call('EXPIRE', KEYS[4], ARGV[6])
local old = redis.call('ZCOUNT', KEYS[5], '-inf', whole(now - tonumber(ARGV[8]) * 1000))
if old > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[5], 0, old - 1)
end
redis.call('ZADD', KEYS[5], whole(now), ARGV[7])
redis.call('EXPIRE', KEYS[5], ARGV[8])
return 1
