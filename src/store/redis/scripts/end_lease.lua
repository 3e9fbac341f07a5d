-- Buries a gateway that stops.
-- KEYS  1 leases
-- ARGV  1 gateway  2 lifetime, s
-- Returns  1
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], ARGV[1], 'dead:' .. whole((clock())))
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
