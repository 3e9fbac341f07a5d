-- What is known of some users of some slices.
-- KEYS  for each slice: users online, those of them who are invisible, last seen, whereabouts
-- ARGV  1 text | u32, then for each slice: how many users, the users
-- Returns  for each slice: a digit for each user, 1: online and not invisible; {whereabouts or nil, … of those whose
--          digit is 1}; {time or nil, … of the others}
local reply, first = {}, 2
for i = 1, #KEYS, 4 do
  local last = first + tonumber(ARGV[first])
  local online = redis.call('SMISMEMBER', KEYS[i], unpack(ARGV, first + 1, last))
  if redis.call('EXISTS', KEYS[i + 1]) == 1 then
    for place, hidden in ipairs(redis.call('SMISMEMBER', KEYS[i + 1], unpack(ARGV, first + 1, last))) do
      online[place] = hidden == 1 and 0 or online[place]
    end
  end
  local here, away = {}, {}
  for place, flag in ipairs(online) do
    if flag == 1 then
      here[#here + 1] = ARGV[first + place]
    else
      away[#away + 1] = seen_member(ARGV[1], ARGV[first + place])
    end
  end
  reply[#reply + 1] = table.concat(online)
  reply[#reply + 1] = #here > 0 and redis.call('HMGET', KEYS[i + 3], unpack(here)) or {}
  reply[#reply + 1] = #away > 0 and redis.call('ZMSCORE', KEYS[i + 2], unpack(away)) or {}
  first = last + 1
end
return reply
