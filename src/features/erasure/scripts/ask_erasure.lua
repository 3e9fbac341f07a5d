-- Begins the erasure of a user, unless one runs.
-- KEYS  1 stream of jobs  2 their progress  3 user -> erasure  4 the report of the new erasure
-- ARGV  1 user  2 the new erasure  3 lifetime of the report, s
-- Returns  the erasure that runs
local there = redis.call('HGET', KEYS[3], ARGV[1])
if there and redis.call('HGET', KEYS[2], ARGV[1]) then
  return there
end
local now = whole((clock()))
-- This write comes first: it needs no memory, so a full Redis accepts the script, which frees memory (see basics.lua).
redis.call('HDEL', KEYS[3], ARGV[1])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[4], 'asked_at', now)
redis.call('EXPIRE', KEYS[4], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[1], '')
redis.call('XADD', KEYS[1], '*', 'job', ARGV[1], 'at', now)
return ARGV[2]
