-- Puts a live on the list with the present time, if it is not on it.
-- KEYS  1 list
-- ARGV  1 live
redis.call('ZADD', KEYS[1], 'NX', whole(clock()), ARGV[1])
return 1
