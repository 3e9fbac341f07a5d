-- What is known of some users of some slices.
-- KEYS  for each slice: users online, those of them who are invisible, last seen, whereabouts
-- ARGV  1 text | u32, then for each slice: how many users, the users
-- Returns  for each slice: a digit for each user, 1: online and not invisible; {whereabouts or nil, …}; {time or nil, …
--          of those whose digit is 0}
local reply, first = {}, 2
for i = 1, #KEYS, 4 do
  local last = first + tonumber(ARGV[first])
  local online = redis.call('SMISMEMBER', KEYS[i], unpack(ARGV, first + 1, last))
  local lives = redis.call('HMGET', KEYS[i + 3], unpack(ARGV, first + 1, last))
  if redis.call('EXISTS', KEYS[i + 1]) == 1 then
    for place, hidden in ipairs(redis.call('SMISMEMBER', KEYS[i + 1], unpack(ARGV, first + 1, last))) do
      if hidden == 1 then
        online[place], lives[place] = 0, false
      end
    end
  end
  local away = {}
  for place, flag in ipairs(online) do
    if flag == 0 then
      away[#away + 1] = seen_member(ARGV[1], ARGV[first + place])
    end
  end
  reply[#reply + 1] = table.concat(online)
  reply[#reply + 1] = lives
  reply[#reply + 1] = #away > 0 and redis.call('ZMSCORE', KEYS[i + 2], unpack(away)) or {}
  first = last + 1
end
return reply
