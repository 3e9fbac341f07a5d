-- Buries a gateway that ends.
-- KEYS  1 leases
-- ARGV  1 gateway  2 lifetime, s
-- Says  1
-- First of all, because it needs no memory.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], ARGV[1], 'dead:' .. whole((clock())))
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
