-- Puts an epoch whose attendance is kept on a list by time.
-- KEYS  1 list
-- ARGV  as for ZADD: 'NX' if a time that is there stays, or 'XX' if one must be there; then the time and the epoch
-- This write comes first: it needs no memory, so that a live can close although Redis is full (see basics.lua).
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], unpack(ARGV))
return 1
