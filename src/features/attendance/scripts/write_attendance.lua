-- Writes the notes on an epoch whose attendance is kept.
-- KEYS  1 the notes
-- ARGV  1 their lifetime, s  2… fields and values
-- This write comes first: it needs no memory, so a live can close even if Redis is full (see basics.lua).
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
redis.call('EXPIRE', KEYS[1], ARGV[1])
return 1
