-- What is known of some users of some slices.
-- KEYS  for each slice: users online, those of them who are invisible, last seen, whereabouts
-- ARGV  1 text | u32, then for each slice: how many users, the users
-- Returns  for each slice: {1: online and not invisible, …}, {time or nil, …}, {whereabouts or nil, …}
local reply, first = {}, 2
for i = 1, #KEYS, 4 do
  local last = first + tonumber(ARGV[first])
  local members = {}
  for place = first + 1, last do
    members[#members + 1] = seen_member(ARGV[1], ARGV[place])
  end
  local online = redis.call('SMISMEMBER', KEYS[i], unpack(ARGV, first + 1, last))
  local lives = redis.call('HMGET', KEYS[i + 3], unpack(ARGV, first + 1, last))
  if redis.call('EXISTS', KEYS[i + 1]) == 1 then
    for place, hidden in ipairs(redis.call('SMISMEMBER', KEYS[i + 1], unpack(ARGV, first + 1, last))) do
      if hidden == 1 then
        online[place], lives[place] = 0, false
      end
    end
  end
  reply[#reply + 1] = online
  reply[#reply + 1] = redis.call('ZMSCORE', KEYS[i + 2], unpack(members))
  reply[#reply + 1] = lives
  first = last + 1
end
return reply
