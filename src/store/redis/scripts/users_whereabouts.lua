-- In which lives some users of some slices are.
-- KEYS  for each slice: whereabouts, invisible users
-- ARGV  for each slice: how many users, the users
-- Returns  for each slice: {whereabouts or nil, …}
local reply, first = {}, 1
for i = 1, #KEYS, 2 do
  local last = first + tonumber(ARGV[first])
  local lives = redis.call('HMGET', KEYS[i], unpack(ARGV, first + 1, last))
  if redis.call('EXISTS', KEYS[i + 1]) == 1 then
    for place, hidden in ipairs(redis.call('SMISMEMBER', KEYS[i + 1], unpack(ARGV, first + 1, last))) do
      lives[place] = hidden == 0 and lives[place]
    end
  end
  reply[#reply + 1] = lives
  first = last + 1
end
return reply
