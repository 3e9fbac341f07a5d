-- Adds a job, unless the same job is there and not finished.
-- KEYS  1 stream of jobs  2 their progress
-- ARGV  1 the job: its task and its status  2 the status's time
-- Returns  1 if it was added
-- This write comes first: it needs no memory, so a live can close even if Redis is full (see basics.lua).
redis.call('HDEL', KEYS[2], '')
if redis.call('HSETNX', KEYS[2], ARGV[1], '') == 0 then
  return 0
end
redis.call('XADD', KEYS[1], '*', 'job', ARGV[1], 'at', ARGV[2])
return 1
