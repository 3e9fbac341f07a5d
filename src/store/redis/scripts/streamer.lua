-- Notes that a streamer has a socket on a gateway.
-- KEYS  1 the streamer's gateways
-- ARGV  1 gateway  2 lifetime, s
-- Returns  1
-- This write comes first: it needs no memory, so a full Redis accepts the script (see prelude.lua).
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], ARGV[1], '1')
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
