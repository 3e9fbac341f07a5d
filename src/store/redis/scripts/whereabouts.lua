-- What gateways said of where some users of some slices are.
-- KEYS  for each slice: invisible users, whereabouts
-- ARGV  for each slice: its users, as a list in JSON
-- Returns  an item for each user, with line feeds between: the whereabouts of a user who is not invisible; or ''
local items, n = {}, 0
for i = 1, #ARGV do
  local users = cjson.decode(ARGV[i])
  local hidden = hidden_of(KEYS[2 * i - 1], users)
  for place, words in ipairs(redis.call('HMGET', KEYS[2 * i], unpack(users))) do
    items[n + place] = hidden[place] ~= 1 and words or ''
  end
  n = n + #users
end
return table.concat(items, '\n')
