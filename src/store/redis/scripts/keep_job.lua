-- Notes how far a job got, and that its worker goes on with it.
-- KEYS  1 stream of jobs  2 their progress
-- ARGV  1 worker  2 the group  3 id  4 the job  5 how far it got
-- Returns  1, or 0 if the job belongs to another worker
if not has_job(KEYS, ARGV) then
  return 0
end
-- This write comes first: it needs no memory, so jobs that free memory go on even if Redis is full (see basics.lua).
redis.call('XCLAIM', KEYS[1], ARGV[2], ARGV[2], 0, ARGV[3], 'JUSTID')
redis.call('HSET', KEYS[2], ARGV[4], ARGV[1] .. ' ' .. ARGV[5])
return 1
