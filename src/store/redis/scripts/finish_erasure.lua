-- Ends the erasure of a user. From then on only the report is left, which does not name the user.
-- KEYS  1 stream of jobs  2 their progress  3 user -> erasure  4 the report
-- ARGV  1 worker  2 the group  3 id of the job  4 user  5 what was found  6 lifetime of the report, s
-- Returns  1, or 0 if the job belongs to another worker
if string.match(redis.call('HGET', KEYS[2], ARGV[4]) or '', '^%S+') ~= ARGV[1] then
  return 0
end
redis.call('XACK', KEYS[1], ARGV[2], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[3])
redis.call('HDEL', KEYS[2], ARGV[4])
redis.call('HDEL', KEYS[3], ARGV[4])
redis.call('HSET', KEYS[4], 'ended_at', whole((clock())), 'found', ARGV[5])
redis.call('EXPIRE', KEYS[4], ARGV[6])
return 1
