-- Reads, for an audit, whether some users of a slice are online, and when they were seen last.
-- KEYS  1 users online  2 last seen
-- ARGV  1 text | u32  2… users
-- Returns  {1: online, …}, {time or nil, …}
local users, members = { unpack(ARGV, 2) }, {}
for place, user in ipairs(users) do
  members[place] = seen_member(ARGV[1], user)
end
return { redis.call('SMISMEMBER', KEYS[1], unpack(users)), redis.call('ZMSCORE', KEYS[2], unpack(members)) }
