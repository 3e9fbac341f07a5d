-- Deletes a job that is done.
-- KEYS  1 stream of jobs  2 their progress
-- ARGV  1 worker  2 the group  3 id  4 the job
-- Returns  1, or 0 if the job belongs to another worker
if string.match(redis.call('HGET', KEYS[2], ARGV[4]) or '', '^%S+') ~= ARGV[1] then
  return 0
end
redis.call('XACK', KEYS[1], ARGV[2], ARGV[3])
redis.call('XDEL', KEYS[1], ARGV[3])
redis.call('HDEL', KEYS[2], ARGV[4])
return 1
