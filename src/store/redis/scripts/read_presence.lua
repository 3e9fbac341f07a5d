-- Reads where users of some slices are, or when they were seen last.
-- KEYS  for each slice: users online, last seen, claims, gateways
-- ARGV  1 text | u32, then for each slice: its users, as a list in JSON
-- Returns  an item for each user, with line feeds between: '+' and '<gateway> <live>' for each live of a user who is
--          online, with commas between; the time when another user was seen last, in ms; '' if there is none
-- Lua takes half of the time here, so each loop counts its own entries instead of using `#`.
local form, items, n = ARGV[1], {}, 0
for i = 2, #ARGV do
  local key, users = 4 * i - 8, cjson.decode(ARGV[i])
  local online = redis.call('SMISMEMBER', KEYS[key + 1], unpack(users))
  local here, away, of_here, of_away = {}, {}, 0, 0
  for place = 1, #users do
    if online[place] == 1 then
      of_here = of_here + 1
      here[of_here] = users[place]
    else
      of_away = of_away + 1
      away[of_away] = seen_member(form, users[place])
    end
  end
  local words = of_here > 0 and all_words(KEYS[key + 3], KEYS[key + 4], here)
  local seen = of_away > 0 and redis.call('ZMSCORE', KEYS[key + 2], unpack(away))
  of_here, of_away = 0, 0
  for place = 1, #users do
    if online[place] == 1 then
      of_here = of_here + 1
      items[n + place] = '+' .. words[of_here]
    else
      of_away = of_away + 1
      items[n + place] = seen[of_away] or ''
    end
  end
  n = n + #users
end
return table.concat(items, '\n')
