-- All that is known of some users of a slice, for an audit.
-- KEYS  1 users online  2 those of them who are invisible  3 last seen  4 whereabouts
-- ARGV  1 text | u32  2… users
-- Returns  {1: online and not invisible, …}, {time or nil, …}, {whereabouts or nil, …}
local users, members = { unpack(ARGV, 2) }, {}
for place, user in ipairs(users) do
  members[place] = seen_member(ARGV[1], user)
end
local online = redis.call('SMISMEMBER', KEYS[1], unpack(users))
for place, hidden in ipairs(hidden_of(KEYS[2], users)) do
  if hidden == 1 then
    online[place] = 0
  end
end
return { online, redis.call('ZMSCORE', KEYS[3], unpack(members)), redis.call('HMGET', KEYS[4], unpack(users)) }
