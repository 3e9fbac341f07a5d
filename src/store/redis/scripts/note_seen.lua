-- Notes when users were seen last. Removes the times of users who are online.
-- KEYS  1 last seen  2 users online
-- ARGV  1 text | u32  2 a time that is less than so many ms later than the known one changes nothing,
--       then for each user: user, time in ms
-- Returns  {place of a user, the known time in ms, …} for the users whose time is too near to the known one
local users = {}
for i = 3, #ARGV, 2 do
  users[#users + 1] = ARGV[i]
end
local online = redis.call('SMISMEMBER', KEYS[2], unpack(users))
local here, gone, near = {}, {}, {}
local apart = tonumber(ARGV[2])
for i, user in ipairs(users) do
  local member = seen_member(ARGV[1], user)
  if online[i] == 1 then
    here[#here + 1] = member
  else
    local at = ARGV[2 * i + 2]
    local known = apart > 0 and redis.call('ZSCORE', KEYS[1], member)
    if known and tonumber(known) + apart > tonumber(at) then
      near[#near + 1] = i
      near[#near + 1] = known
    else
      gone[#gone + 1] = at
      gone[#gone + 1] = member
    end
  end
end
-- The command that frees memory comes first: a full Redis accepts it (see basics.lua).
if #here > 0 then
  redis.call('ZREM', KEYS[1], unpack(here))
end
if #gone > 0 then
  redis.call('ZADD', KEYS[1], 'GT', unpack(gone))
end
return near
