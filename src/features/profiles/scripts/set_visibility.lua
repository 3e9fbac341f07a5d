-- Hides a user, or shows the user again.
-- KEYS  1 the hidden users
-- ARGV  1 the user  2 1 to hide, 0 to show  3 the latest time at which the call may run
-- Returns  {'done'}, {'late', now}
local now = clock()
if now > tonumber(ARGV[3]) then
  return { 'late', whole(now) }
end
if ARGV[2] == '1' then
  redis.call('SADD', KEYS[1], ARGV[1])
else
  redis.call('SREM', KEYS[1], ARGV[1])
end
return { 'done' }
