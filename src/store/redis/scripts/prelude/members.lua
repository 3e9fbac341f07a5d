-- The members of a slice, what is noted on them, and how they go.

-- The key of a script behind that of the notes is the fans of a live or, if there is a form of ids, last seen of the users
-- of the platform. Returns both; one of them is nil.
local function fans_or_seen(key, form)
  if form ~= '' then
    return nil, key
  end
  return key, nil
end

-- The words of a user's lives, '<gateway> <live>' each, of gateways that hold the user, but those of `except`. Other words
-- are nobody's.
local function kept_words(value, prefix, user, except)
  local words = {}
  for gateway, live in string.gmatch(value, '([^ ,]+) ([^ ,]+)') do
    if gateway ~= except and redis.call('SISMEMBER', prefix .. gateway, user) == 1 then
      words[#words + 1] = gateway .. ' ' .. live
    end
  end
  return words
end

-- Drops what gateways that hold users no longer say of the lives in which these are; at most 1,000 users.
local function drop_words(notes, prefix, users)
  local fields = {}
  for i, value in ipairs(redis.call('HMGET', notes, unpack(users))) do
    local words = value and table.concat(kept_words(value, prefix, users[i]), ',')
    if words ~= value then
      fields[#fields + 1] = users[i]
      fields[#fields + 1] = words
    end
  end
  if #fields > 0 then
    redis.call('HSET', notes, unpack(fields))
  end
end

-- What is told of members who are removed, and which of them were there: it ends their sessions in `stays`, or notes when
-- users of the platform were seen last, at the times that `at` gives. Nil if the slice keeps neither.
local function on_end(stays, seen, form, at)
  if stays then
    return function(gone) end_stays(stays, gone, at) end
  elseif seen then
    return function(gone, were_there)
      local left = {}
      for i, user in ipairs(gone) do
        if were_there[i] == 1 then
          left[#left + 1] = user
        end
      end
      note_last_seen(seen, form, left, at)
    end
  end
end

-- Removes users, at most 1,000, from a set of the slice. `notes`, what is noted of them, is nil unless the set keeps
-- something. `ended`, unless it is nil, is told of them. Returns how many were there.
local function drop_members(set, notes, gone, ended)
  local were_there = ended and redis.call('SMISMEMBER', set, unpack(gone))
  local removed = redis.call('SREM', set, unpack(gone))
  if notes then
    redis.call('HDEL', notes, unpack(gone))
  end
  if ended then
    ended(gone, were_there)
  end
  return removed
end

-- Removes those of `gone`, at most 1,000, from a set of the slice whom no gateway holds. Returns how many were there.
local function drop_unheld(set, gateways, prefix, notes, gone, ended)
  gone = unheld(gateways, prefix, gone)
  return #gone > 0 and drop_members(set, notes, gone, ended) or 0
end

-- Takes users, at most 1,000, out of the fans whom a gateway holds, and those out of the fans of the slice who are fans
-- by no gateway. Returns how many fans the slice has less.
local function drop_fans(fans, held_fans, gateways, prefix, users)
  if #users == 0 or redis.call('EXISTS', held_fans) == 0 then
    return 0
  end
  local gone = {}
  for i, is_fan in ipairs(redis.call('SMISMEMBER', held_fans, unpack(users))) do
    if is_fan == 1 then
      gone[#gone + 1] = users[i]
    end
  end
  if #gone == 0 then
    return 0
  end
  redis.call('SREM', held_fans, unpack(gone))
  return drop_unheld(fans, gateways, prefix, nil, gone)
end

-- Empties a slice, whatever its size: these keys and the held sets of all gateways, whose prefixes are given. Redis
-- frees the memory in the background.
local function wipe(keys, gateways, prefixes)
  local all = { gateways, unpack(keys) }
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    for _, prefix in ipairs(prefixes) do
      all[#all + 1] = prefix .. gateway
    end
  end
  redis.call('UNLINK', unpack(all))
end
