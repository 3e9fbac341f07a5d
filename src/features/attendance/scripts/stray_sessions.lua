-- Looks through a page of an open epoch for users about whom the slice and the sessions disagree.
-- KEYS  1 members  2 stays  3 fence
-- ARGV  1 epoch  2 cursor  3 members or fields of a page
--       4 missing: members without an open session | ghosts: open sessions of users who are not in the slice
--         | end: the same, and ends these sessions
-- Returns  {next cursor, how many users, up to 10 of them…}
local fence = read_fence(KEYS[3])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[1]) then
  return { '0', 0 }
end
local names, found = {}, 0

-- Calls `look` with at most 1,000 users at a time. If Redis stores a set or hash in one block, it is one page, however
-- large it is.
local function each_thousand(users, look)
  for first = 1, #users, 1000 do
    look({ unpack(users, first, math.min(first + 999, #users)) })
  end
end

local function name(user)
  found = found + 1
  if #names < 10 then
    names[#names + 1] = user
  end
end

if ARGV[4] == 'missing' then
  local page = redis.call('SSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
  each_thousand(page[2], function(users)
    local known = redis.call('HMGET', KEYS[2], unpack(users))
    for i, user in ipairs(users) do
      local stay = read_stay(known[i])
      if not stay or stay.left then
        name(user)
      end
    end
  end)
  return { page[1], found, unpack(names) }
end

local page = redis.call('HSCAN', KEYS[2], ARGV[2], 'COUNT', ARGV[3])
local open = {}
for i = 1, #page[2], 2 do
  -- A field with a space is an earlier session, and earlier sessions have ended.
  if not string.find(page[2][i], ' ', 1, true) and not read_stay(page[2][i + 1]).left then
    open[#open + 1] = page[2][i]
  end
end
each_thousand(open, function(users)
  local there, gone = redis.call('SMISMEMBER', KEYS[1], unpack(users)), {}
  for i, user in ipairs(users) do
    if there[i] == 0 then
      gone[#gone + 1] = user
      name(user)
    end
  end
  if ARGV[4] == 'end' and #gone > 0 then
    local now = clock()
    end_stays(KEYS[2], gone, function() return now end)
  end
end)
return { page[1], found, unpack(names) }
