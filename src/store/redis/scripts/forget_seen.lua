-- Forgets users who were last seen before a time, the oldest first.
-- KEYS  1 last seen
-- ARGV  1 the time, ms  2 the most users
-- Returns  how many users the script forgot
local old = math.min(redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[1]), tonumber(ARGV[2]))
if old > 0 then
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, old - 1)
end
return old
