-- Erases a user's sessions in a slice of a live with attendance.
-- KEYS  1 stays  2 sessions
-- ARGV  1 user  2 most sessions of a user
-- Returns  how many there were
local latest = redis.call('HGET', KEYS[1], ARGV[1])
if not latest then
  return 0
end
local count = math.min(tonumber(string.match(latest, '^%d+') or '1'), tonumber(ARGV[2]))
local fields, members = { ARGV[1] }, {}
for number = 1, count do
  local session = ARGV[1] .. ' ' .. whole(number)
  fields[#fields + 1] = session
  members[#members + 1] = session
end
redis.call('HDEL', KEYS[1], unpack(fields))
redis.call('ZREM', KEYS[2], unpack(members))
return count
