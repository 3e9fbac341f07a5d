-- Claims a login, unless another user has it.
-- KEYS  1 logins
-- ARGV  1 the folded login  2 the user  3 the latest time at which the call may run
-- Returns  {'done', 1 if it is the user's now}, {'late', now}
local now = clock()
if now > tonumber(ARGV[3]) then
  return { 'late', whole(now) }
end
redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
  return { 'done', 1 }
end
return { 'done', 0 }
