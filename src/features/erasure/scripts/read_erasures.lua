-- Tells which erasures run, and whose ended.
-- KEYS  1 stream of jobs  2 their progress  3 user -> erasure  4 digests of erased users, scored by the end
-- ARGV  1 after which end, ms  2 how long ends are known, ms
-- Returns  {the time, when the oldest job was asked for or 0, {user, erasure, …}, {digest, end, …}}
local now = (clock())
local running = {}
for _, user in ipairs(redis.call('HKEYS', KEYS[2])) do
  running[#running + 1] = user
  running[#running + 1] = redis.call('HGET', KEYS[3], user) or ''
end
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
local after = math.max(tonumber(ARGV[1]), now - tonumber(ARGV[2]))
return { whole(now), first and string.match(first[1], '^%d+') or '0', running,
  redis.call('ZRANGE', KEYS[4], '(' .. whole(after), '+inf', 'BYSCORE', 'WITHSCORES') }
