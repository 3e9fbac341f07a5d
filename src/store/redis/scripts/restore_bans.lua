-- Notes bans that a gateway knows and the store may have lost. Leaves users alone about whom the store knows a removal
-- or a lifted ban.
-- KEYS  1 record  2 removals  3 bans
-- ARGV  1 epoch  2 most bans  3 most changes kept  4 lifetime, s, then for each ban: user, ms left of it
-- Returns  {'done' | 'over' | 'absent'}
local shut, last = read_book(KEYS[1], ARGV[1])
if shut then
  return { shut }
end
local now = clock()
forget_ended(KEYS[3], now)
for i = 5, #ARGV, 2 do
  local user, left = ARGV[i], tonumber(ARGV[i + 1])
  local known = redis.call('ZSCORE', KEYS[2], user) or redis.call('ZSCORE', KEYS[2], '+' .. user)
  if not known and redis.call('ZCARD', KEYS[3]) < tonumber(ARGV[2]) then
    redis.call('ZADD', KEYS[3], whole(now + left), user)
    redis.call('EXPIRE', KEYS[3], ARGV[4])
    last = tonumber(note(KEYS, last, user, '+' .. user, ARGV[3], ARGV[4]))
  end
end
return { 'done' }
