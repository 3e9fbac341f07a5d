-- Adds an epoch that is over to the list of its streamer's past lives, and drops old epochs from the list.
-- KEYS  1 past lives  2 their summaries
-- ARGV  1 the epoch  2 when its close began  3 its summary  4 how long the list keeps it, ms  5 most past lives
-- This write comes first: it needs no memory, so a live can close even if Redis is full (see basics.lua).
redis.call('HDEL', KEYS[2], '')
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
local old = redis.call('ZRANGE', KEYS[1], '-inf', '(' .. whole(clock() - ARGV[4]), 'BYSCORE', 'LIMIT', 0, 500)
local over = redis.call('ZCARD', KEYS[1]) - ARGV[5]
if #old == 0 and over > 0 then
  old = redis.call('ZRANGE', KEYS[1], 0, math.min(over, 500) - 1)
end
if #old > 0 then
  redis.call('ZREM', KEYS[1], unpack(old))
  redis.call('HDEL', KEYS[2], unpack(old))
end
local keep = math.ceil(ARGV[4] / 1000)
redis.call('EXPIRE', KEYS[1], keep)
redis.call('EXPIRE', KEYS[2], keep)
return 1
