-- What is known of some users of some slices.
-- KEYS  for each slice: users online, last seen, whereabouts
-- ARGV  1 text | u32, then for each slice: how many users, the users
-- Returns  for each slice: {1: online, …}, {time or nil, …}, {whereabouts or nil, …}
local reply, first = {}, 2
for i = 1, #KEYS, 3 do
  local last = first + tonumber(ARGV[first])
  local members = {}
  for place = first + 1, last do
    members[#members + 1] = seen_member(ARGV[1], ARGV[place])
  end
  reply[#reply + 1] = redis.call('SMISMEMBER', KEYS[i], unpack(ARGV, first + 1, last))
  reply[#reply + 1] = redis.call('ZMSCORE', KEYS[i + 1], unpack(members))
  reply[#reply + 1] = redis.call('HMGET', KEYS[i + 2], unpack(ARGV, first + 1, last))
  first = last + 1
end
return reply
