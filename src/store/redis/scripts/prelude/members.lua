-- Changes the public sets of a slice.

-- Calls `act` with at most 1,000 items at a time.
local function each_thousand(items, act)
  for first = 1, #items, 1000 do
    act({ unpack(items, first, math.min(first + 999, #items)) })
  end
end

-- Asks about at most 1,000 items at a time, and returns the answers about all items.
local function ask_about(items, ask)
  if #items <= 1000 then
    return #items > 0 and ask(items) or {}
  end
  local answers = {}
  each_thousand(items, function(some)
    for _, answer in ipairs(ask(some)) do
      answers[#answers + 1] = answer
    end
  end)
  return answers
end

-- Tells whether each of these users is in a set: 1 or 0.
local function are_in(set, users)
  return ask_about(users, function(some) return redis.call('SMISMEMBER', set, unpack(some)) end)
end

-- Reads the claims on each of these users; false for a user without claims.
local function claims_on(who, users)
  return ask_about(users, function(some) return redis.call('HMGET', who, unpack(some)) end)
end

-- Writes new claims: user, value… And deletes those of the users in `gone`.
local function write_claims(who, fields, gone)
  each_thousand(fields, function(some) redis.call('HSET', who, unpack(some)) end)
  each_thousand(gone, function(some) redis.call('HDEL', who, unpack(some)) end)
end

-- Puts users into a public set, and takes others out of it.
local function change_set(set, present, absent)
  each_thousand(present, function(some) redis.call('SADD', set, unpack(some)) end)
  each_thousand(absent, function(some) redis.call('SREM', set, unpack(some)) end)
end

-- Takes users out of the members, and out of the confirmed viewers. Ends their sessions, or notes when those who were
-- there were seen last, if the slice keeps either. `at` gives the times.
local function drop_members(keys, form, gone, at)
  each_thousand(gone, function(some)
    local were_there = keys.seen and redis.call('SMISMEMBER', keys.members, unpack(some))
    redis.call('SREM', keys.members, unpack(some))
    if keys.confirmed then
      redis.pcall('ZREM', keys.confirmed, unpack(some))
    end
    if keys.stays then
      end_stays(keys.stays, some, at)
    elseif keys.seen then
      local left = {}
      for i, user in ipairs(some) do
        if were_there[i] == 1 then
          left[#left + 1] = user
        end
      end
      note_last_seen(keys.seen, form, left, at)
    end
  end)
end
