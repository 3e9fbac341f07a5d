-- Reads, for an audit, everything that Redis has about some users of a slice.
-- KEYS  1 users online  2 last seen  3 claims  4 gateways
-- ARGV  1 text | u32  2… users
-- Returns  {1: online, …}, {time or nil, …}, {'<gateway> <live>' for each live, with commas between, …}
local users, members = { unpack(ARGV, 2) }, {}
for place, user in ipairs(users) do
  members[place] = seen_member(ARGV[1], user)
end
local online = redis.call('SMISMEMBER', KEYS[1], unpack(users))
return { online, redis.call('ZMSCORE', KEYS[2], unpack(members)), all_words(KEYS[3], KEYS[4], users) }
