-- What is known of some users of some slices. A user who is online has a place, one who is not has a time.
-- KEYS  for each slice: users online, last seen, whereabouts
-- ARGV  1 text | u32, then for each slice: how many users, the users
-- Returns  for each slice: a digit for each user, 1: online; {whereabouts or nil, … of those who are online}; {time or
--          nil, … of the others}
local reply, first = {}, 2
for i = 1, #KEYS, 3 do
  local last = first + tonumber(ARGV[first])
  local online = redis.call('SMISMEMBER', KEYS[i], unpack(ARGV, first + 1, last))
  local here, away = {}, {}
  for place, flag in ipairs(online) do
    local user = ARGV[first + place]
    if flag == 1 then
      here[#here + 1] = user
    else
      away[#away + 1] = seen_member(ARGV[1], user)
    end
  end
  reply[#reply + 1] = table.concat(online)
  reply[#reply + 1] = #here > 0 and redis.call('HMGET', KEYS[i + 2], unpack(here)) or {}
  reply[#reply + 1] = #away > 0 and redis.call('ZMSCORE', KEYS[i + 1], unpack(away)) or {}
  first = last + 1
end
return reply
