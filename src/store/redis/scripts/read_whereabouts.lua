-- Reads the whereabouts of some users of some slices, as gateways wrote them.
-- KEYS  for each slice: whereabouts
-- ARGV  for each slice: its users, as a list in JSON
-- Returns  an item for each user, with line feeds between: the whereabouts of the user, or ''
local items, n = {}, 0
for i = 1, #ARGV do
  local users = cjson.decode(ARGV[i])
  for place, words in ipairs(redis.call('HMGET', KEYS[i], unpack(users))) do
    items[n + place] = words or ''
  end
  n = n + #users
end
return table.concat(items, '\n')
