-- Frees a login, if this user has it.
-- KEYS  1 logins
-- ARGV  1 the folded login  2 the user  3 the latest time at which the call may run
-- Returns  {'done', 1 if it was the user's}, {'late', now}
local now = clock()
if now > tonumber(ARGV[3]) then
  return { 'late', whole(now) }
end
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return { 'done', 0 }
end
return { 'done', redis.call('HDEL', KEYS[1], ARGV[1]) }
