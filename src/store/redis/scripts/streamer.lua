-- Notes that a streamer has a socket on a gateway.
-- KEYS  1 the streamer's gateways
-- ARGV  1 gateway  2 lifetime, s
-- Says  1
-- First of all, because it needs no memory: a live must not close because Redis is full.
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], ARGV[1], '1')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
