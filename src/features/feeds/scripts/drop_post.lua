-- Deletes an announcement.
-- KEYS  1 the author's profile  2 the author's announcements
-- ARGV  1 status  2 the announcement's id
-- Returns  1 if it was there
redis.call('ZREM', KEYS[1], ARGV[1])
return redis.call('HDEL', KEYS[2], ARGV[2])
