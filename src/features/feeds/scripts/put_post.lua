-- Stores an announcement unless it is there, and deletes the author's oldest ones if there are too many.
-- KEYS  1 the author's profile  2 the author's announcements
-- ARGV  1 how many to keep  2 score  3 status  4 the announcement's id  5 the announcement
-- Returns  the announcement that is there
if redis.call('HSETNX', KEYS[2], ARGV[4], ARGV[5]) == 0 then
  return redis.call('HGET', KEYS[2], ARGV[4])
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[3])
local over = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[1])
if over > 0 then
  for _, status in ipairs(redis.call('ZRANGE', KEYS[1], 0, math.min(over, 1000) - 1)) do
    redis.call('ZREM', KEYS[1], status)
    redis.call('HDEL', KEYS[2], string.match(status, '~(.*)$') or '')
  end
end
return ARGV[5]
