-- What is known of some users of some slices.
-- KEYS  for each slice: users online, those of them who are invisible, last seen, whereabouts
-- ARGV  1 text | u32, then for each slice: its users, with a space after each
-- Returns  an item for each user, with line feeds between: '+' and the whereabouts of a user who is online and not
--          invisible; the time of another, in ms; '' if nobody remembers
local items, n = {}, 0
for i = 2, #ARGV do
  local key, users = 4 * i - 8, names_of(ARGV[i])
  local online = redis.call('SMISMEMBER', KEYS[key + 1], unpack(users))
  local hidden = hidden_of(KEYS[key + 2], users)
  local here, away = {}, {}
  for place, user in ipairs(users) do
    if online[place] == 1 and hidden[place] ~= 1 then
      here[#here + 1] = user
    else
      online[place] = 0
      away[#away + 1] = seen_member(ARGV[1], user)
    end
  end
  local words = #here > 0 and redis.call('HMGET', KEYS[key + 4], unpack(here))
  local seen = #away > 0 and redis.call('ZMSCORE', KEYS[key + 3], unpack(away))
  local of_here, of_away = 0, 0
  for place, is_online in ipairs(online) do
    if is_online == 1 then
      of_here = of_here + 1
      items[n + place] = '+' .. (words[of_here] or '')
    else
      of_away = of_away + 1
      items[n + place] = seen[of_away] or ''
    end
  end
  n = n + #users
end
return table.concat(items, '\n')
