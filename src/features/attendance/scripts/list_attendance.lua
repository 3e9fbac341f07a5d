-- Adds an epoch whose attendance is kept to a list that is ordered by time.
-- KEYS  1 list
-- ARGV  as for ZADD: 'NX' if a time that is there stays, or 'XX' if one must be there; then the time and the epoch
-- This write comes first: it needs no memory, so a live can close even if Redis is full (see basics.lua).
redis.call('ZREM', KEYS[1], '')
redis.call('ZADD', KEYS[1], unpack(ARGV))
return 1
