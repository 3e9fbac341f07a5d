-- Counts users who are online, and others who were last seen in a span; the invisible may count as both.
-- KEYS  for each slice: users online, those of them who are invisible, last seen
-- ARGV  1 from, ms  2 to, ms; +inf: no end
-- Returns  {online, last seen, the place of each slice with invisible users, from 1 on…}
local reply = { 0, 0 }
for i = 1, #KEYS, 3 do
  reply[1] = reply[1] + redis.call('SCARD', KEYS[i])
  reply[2] = reply[2] + redis.call('ZCOUNT', KEYS[i + 2], ARGV[1], ARGV[2])
  if redis.call('EXISTS', KEYS[i + 1]) == 1 then
    reply[#reply + 1] = (i + 2) / 3
  end
end
return reply
