-- Puts a live on the list with the present time, unless it is there.
-- KEYS  1 list
-- ARGV  1 live
redis.call('ZADD', KEYS[1], 'NX', whole(clock()), ARGV[1])
return 1
