-- A gateway ends: it is buried at once.
-- KEYS  1 leases
-- ARGV  1 gateway  2 lifetime, s
-- Says  1
-- Before anything that needs memory.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], ARGV[1], 'dead:' .. whole((clock())))
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
