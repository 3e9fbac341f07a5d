-- Removes the members of a slice, and the notes on them.

-- Tells which key a script has after the notes: last seen of the users of the platform if there is a form of ids, and
-- otherwise the fans of a live. Returns fans and last seen, of which one is nil.
local function fans_or_seen(key, form)
  if form ~= '' then
    return nil, key
  end
  return key, nil
end

-- Returns the words about a user's lives, '<gateway> <live>' each, of the gateways that hold the user, without those of
-- the gateway `except`. Words of other gateways are nobody's.
local function kept_words(value, prefix, user, except)
  local words = {}
  for gateway, live in string.gmatch(value, '([^ ,]+) ([^ ,]+)') do
    if gateway ~= except and redis.call('SISMEMBER', prefix .. gateway, user) == 1 then
      words[#words + 1] = gateway .. ' ' .. live
    end
  end
  return words
end

-- Drops the words about the lives of users, at most 1,000, that come from gateways that no longer hold these users.
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

-- Returns a function to call with removed members and whether each of them was there. It ends their sessions in
-- `stays`, or notes when users of the platform were seen last. `at` gives the times. Returns nil if the slice keeps
-- neither.
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

-- Removes users, at most 1,000, from a set of the slice. `notes` is the key of the notes on them, or nil if the set has
-- none. Calls `ended` with the users, unless it is nil. Returns how many users were there.
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

-- Removes from a set of the slice those users in `gone`, at most 1,000, whom no gateway holds. Returns how many were
-- there.
local function drop_unheld(set, gateways, prefix, notes, gone, ended)
  gone = unheld(gateways, prefix, gone)
  return #gone > 0 and drop_members(set, notes, gone, ended) or 0
end

-- Removes users, at most 1,000, from the fans whom a gateway holds. Then removes from the fans of the slice the users
-- whom no gateway holds as fans any more. Returns how many fans the slice lost.
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

-- Empties a slice, whatever its size: deletes these keys, the entries, and the held sets of all gateways, whose names
-- begin with `prefixes`. Redis frees the memory in the background.
local function wipe(keys, gateways, prefixes)
  local all = { gateways, unpack(keys) }
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    for _, prefix in ipairs(prefixes) do
      all[#all + 1] = prefix .. gateway
    end
  end
  redis.call('UNLINK', unpack(all))
end
