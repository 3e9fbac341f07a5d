-- A page of a slice without the invisible, or which of some users are in it and not invisible.
-- KEYS  1 slice  2 invisible members
-- ARGV  1 cursor, or empty: the users that follow are asked for  2 members of a page, or the users
-- Returns  {next cursor, members…} | {1 or 0 for each user}
local function keep_listed(members, keep)
  for first = 1, #members, 1000 do
    local some = { unpack(members, first, math.min(first + 999, #members)) }
    for i, hidden in ipairs(redis.call('SMISMEMBER', KEYS[2], unpack(some))) do
      if hidden == 0 then
        keep(some[i], first + i - 1)
      end
    end
  end
end

local reply = {}
if ARGV[1] == '' then
  local users = { unpack(ARGV, 2) }
  reply = redis.call('SMISMEMBER', KEYS[1], unpack(users))
  local listed = {}
  keep_listed(users, function(_, place) listed[place] = true end)
  for place = 1, #users do
    reply[place] = listed[place] and reply[place] or 0
  end
  return reply
end
local page = redis.call('SSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
reply[1] = page[1]
keep_listed(page[2], function(member) reply[#reply + 1] = member end)
return reply
