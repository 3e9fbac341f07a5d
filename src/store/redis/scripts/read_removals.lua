-- Reads the removals and lifted bans after a number.
-- KEYS  1 record  2 removals  3 bans
-- ARGV  1 epoch  2 the number  3 limit
-- Returns  {'over' | 'absent'} | {'known', last number, now, then for each change: user (with '+' before if the ban was
--          lifted), number, ms left of the ban…}
local shut, last = read_book(KEYS[1], ARGV[1])
if shut then
  return { shut }
end
local now = clock()
forget_ended(KEYS[3], now)
local reply = { 'known', whole(last), whole(now) }
local later = redis.call('ZRANGE', KEYS[2], '(' .. ARGV[2], '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[3], 'WITHSCORES')
for i = 1, #later, 2 do
  local ends = redis.call('ZSCORE', KEYS[3], later[i])
  reply[#reply + 1] = later[i]
  reply[#reply + 1] = whole(tonumber(later[i + 1]))
  reply[#reply + 1] = whole(ends and math.max(0, tonumber(ends) - now) or 0)
end
return reply
