-- Counts the users who are online, and the other users who were last seen in a span of time.
-- KEYS  for each slice: users online, last seen
-- ARGV  1 from, ms  2 to, ms; +inf: no end
-- Returns  {online, last seen}
local online, seen = 0, 0
for i = 1, #KEYS, 2 do
  online = online + redis.call('SCARD', KEYS[i])
  seen = seen + redis.call('ZCOUNT', KEYS[i + 1], ARGV[1], ARGV[2])
end
return { online, seen }
