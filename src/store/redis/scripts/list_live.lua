-- Puts a live on the list of open lives, and at the bottom of the ranks unless it already has a place there.
-- KEYS  1 list  2 ranks by viewers  3 ranks by fans
-- ARGV  1 live  2 when it opened; empty: now, unless the live is on the list
if ARGV[2] == '' then
  redis.call('ZADD', KEYS[1], 'NX', whole((clock())), ARGV[1])
else
  redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
end
redis.call('ZADD', KEYS[2], 'NX', 0, ARGV[1])
redis.call('ZADD', KEYS[3], 'NX', 0, ARGV[1])
return 1
