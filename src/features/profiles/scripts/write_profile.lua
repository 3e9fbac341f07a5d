-- Writes a profile. Keeps the former login in it, so that a change that was left half way can still give that login
-- back.
-- KEYS  1 the user
-- ARGV  1 login  2 name  3 the latest time at which the call may run
-- Returns  {'done', 1 if the profile is the first, signup, the login before or empty}, {'late', now}
local now = clock()
if now > tonumber(ARGV[3]) then
  return { 'late', whole(now) }
end
local former = redis.call('HGET', KEYS[1], 'login')
redis.call('HSET', KEYS[1], 'login', ARGV[1], 'name', ARGV[2])
if former and string.lower(former) ~= string.lower(ARGV[1]) then
  redis.call('HSET', KEYS[1], 'former', former)
end
redis.call('HSETNX', KEYS[1], 'signup', whole(now))
return { 'done', former and 0 or 1, redis.call('HGET', KEYS[1], 'signup'), former or '' }
