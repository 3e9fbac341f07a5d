-- Makes a part of a pass through a slice: takes the claims of dead gateways out, and brings the public sets in line with
-- the claims. A small slice is done in one call.
-- KEYS  1 members  2 claims  3 gateways  4 fence
--       of the users of the platform:  5 last seen
--       of a live:  5 fans  6 confirmed viewers  7 stays  8 sessions
-- ARGV  1 epoch  2 begin: the first call, which marks the entries of the dead | claims | members | fans: what it looks
--       through first  3 cursor  4 1 if the pass ends with the claims, or empty  5 about as many users are looked at
--       6 text | u32 of the users of the platform, otherwise empty  7 lifetime, s  8 lifetime of the totals, s
--       9 the incarnation in which somebody else wrote an entry, or empty
--       10 the newest version of the slice in this epoch that the gateway knows, or 0  11 how many members came by then
--       12 how many left  13 fans  14 guests, then for each dead gateway: gateway, when it was heard last, ms
-- Returns  {what the next call looks through or empty, its cursor, claims of dead gateways that were taken out, strays,
--          missing, SIZE…}, or nothing if the slice does not belong to this epoch, or the epoch is closed
local epoch, phase, cursor, form, known = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[6], known_from(10)
local is_of_platform = form ~= ''
local keys = {
  members = KEYS[1], who = KEYS[2], gateways = KEYS[3], fence = KEYS[4], fans = not is_of_platform and KEYS[5],
  seen = is_of_platform and KEYS[5], confirmed = KEYS[6], stays = KEYS[7], sessions = KEYS[8],
}

-- 1. The guard.
local fence = read_fence(keys.fence)
if fence.phase and (fence.phase ~= 'open' or fence.epoch ~= epoch) then
  return {}
end
local sizes = read_sizes(keys)
if fence.phase then
  guard(fence, keys, known, tonumber(ARGV[9]))
elseif known.version > 0 or sizes.members + sizes.fans + sizes.claimed + sizes.entries > 0 then
  fence = new_fence('open', epoch, 0)
  forget(fence, keys, known)
else
  redis.call('UNLINK', keys.fence)
  return {}
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('SREM', keys.members, '')

-- 2. The entries of the dead.
-- Calls `act` with the entry of each dead gateway that has one: the gateway, its token, and whether it is marked.
local function each_dead(act)
  for i = 15, #ARGV, 2 do
    local entry = redis.call('HGET', keys.gateways, ARGV[i])
    if entry then
      local token, number = read_entry(entry)
      act(ARGV[i], token or '0', number == 'dead')
    end
  end
end

if phase == 'begin' then
  phase = 'claims'
  each_dead(function(gateway, token, is_marked)
    if not is_marked then
      redis.call('HSET', keys.gateways, gateway, token .. ':dead')
      fence.entries = fence.entries - redis.call('HDEL', keys.gateways, '#' .. token)
      fence.has_changed = true
    end
  end)
end

-- 3. The pages.
local now = clock()
local rebuild, agree
local looked, released, strays, missing = 0, 0, 0, 0

-- Notes how many users the public sets have without a reason, and how many they lack. Returns false if the slice has
-- forgotten all claims because of that: if all sizes agree, nobody can tell which key somebody else wrote.
local function note_drift(found_strays, found_missing)
  if found_strays + found_missing > 0 and agree then
    forget(fence, keys, known)
    return false
  end
  strays, missing = strays + found_strays, missing + found_missing
  fence.has_changed = fence.has_changed or strays + missing > 0
  return true
end

-- Compares a page of the claims with the public sets. Returns false if the slice has forgotten all claims because of
-- that.
local function compare(users, values, are_members, are_fans)
  local found_strays, found_missing = 0, 0
  for i, value in ipairs(values) do
    if are_members[i] == 0 and not is_guest(users[i]) then
      found_missing = found_missing + 1
    end
    if keys.fans then
      local is_fan = says_fan(value, users[i]) and 1 or 0
      found_missing = found_missing + math.max(0, is_fan - are_fans[i])
      found_strays = found_strays + math.max(0, are_fans[i] - is_fan)
    end
  end
  return note_drift(found_strays, found_missing)
end

-- Returns a function that takes the claims of gateways without a living entry out of a user's value. The function
-- returns the rest, or nil if no claim is left; and when the user was here last, if it took a claim out.
local function dead_claims()
  local living, dead = read_tokens(keys.gateways)
  local heard, last_here = {}, nil
  for i = 15, #ARGV, 2 do
    heard[ARGV[i]] = tonumber(ARGV[i + 1])
  end
  local function drop(token)
    if living[token] then
      return nil
    end
    if dead[token] then
      released = released + 1
    end
    last_here = math.max(last_here or 0, heard[dead[token]] or now)
    return ''
  end
  return function(value)
    last_here = nil
    local rest = string.gsub(value, ' ([^ =f]*)[^ ]*', drop)
    return string.find(rest, ' ', 1, true) and rest or nil, last_here
  end
end

-- Looks through a page of the claims.
local function pass_claims()
  local page = redis.call('HSCAN', keys.who, cursor, 'COUNT', ARGV[5])
  local users, values = {}, {}
  for i = 1, #page[2], 2 do
    users[#users + 1], values[#values + 1] = page[2][i], page[2][i + 1]
  end
  looked = looked + #users
  local are_members, are_fans = {}, {}
  if not rebuild then
    are_members = are_in(keys.members, users)
    are_fans = keys.fans and are_in(keys.fans, users)
    if not compare(users, values, are_members, are_fans) then
      return '0'
    end
  end
  local rest_of, last_here = dead_claims(), {}
  local fields, gone, members, fans, no_fans = {}, {}, {}, {}, {}
  for i, user in ipairs(users) do
    local value, heard_at = rest_of(values[i])
    last_here[user] = heard_at or now
    if not value then
      gone[#gone + 1] = user
    elseif value ~= values[i] then
      fields[#fields + 1], fields[#fields + 2] = user, value
    end
    if is_guest(user) then
      fence.guests = value and fence.guests or math.max(0, fence.guests - 1)
    elseif value and are_members[i] == 0 then
      members[#members + 1] = user
    end
    if keys.fans then
      local was_fan, is_fan = says_fan(values[i], user), says_fan(value, user)
      fence.fans = math.max(0, fence.fans + (is_fan and 1 or 0) - (was_fan and 1 or 0))
      if is_fan and are_fans[i] == 0 then
        fans[#fans + 1] = user
      elseif not is_fan and are_fans[i] == 1 then
        no_fans[#no_fans + 1] = user
      end
    end
  end
  write_claims(keys.who, fields, gone)
  fence.has_changed = fence.has_changed or #fields + #gone > 0
  if rebuild then
    -- In a rebuild nobody leaves the public sets.
    rebuild.claimed = rebuild.claimed < 0 and rebuild.claimed or rebuild.claimed - #gone
    return page[1]
  end
  fence.leaves = fence.leaves + #gone
  change_set(keys.members, members, {})
  if #members > 0 then
    redis.call('EXPIRE', keys.members, ARGV[7])
  end
  if keys.fans then
    change_set(keys.fans, fans, no_fans)
  end
  if #fans > 0 then
    redis.call('EXPIRE', keys.fans, ARGV[7])
  end
  drop_members(keys, form, gone, function(user) return last_here[user] end)
  return page[1]
end

-- Looks through a page of a public set. Calls `drop` with the users of whom no claim says that they belong there.
local function pass_set(set, belongs, drop)
  local page = redis.call('SSCAN', set, cursor, 'COUNT', ARGV[5])
  looked = looked + #page[2]
  local gone = {}
  for i, value in ipairs(claims_on(keys.who, page[2])) do
    if not belongs(value, page[2][i]) then
      gone[#gone + 1] = page[2][i]
    end
  end
  if not note_drift(#gone, 0) then
    return '0'
  end
  drop(gone)
  return page[1]
end

local function pass_page()
  if phase == 'claims' then
    return pass_claims()
  end
  if rebuild then
    return '0'
  end
  if phase == 'members' then
    return pass_set(keys.members, function(value, user) return value and not is_guest(user) end,
      function(gone) drop_members(keys, form, gone, function() return now end) end)
  end
  return pass_set(keys.fans, says_fan, function(gone) change_set(keys.fans, {}, gone) end)
end

-- A page of a large hash that has become small may have nobody.
local MOST_PAGES = 10
local pages, last_phase = 0, nil
repeat
  rebuild, agree = fence.rebuild, not differs(fence, read_sizes(keys))
  cursor, last_phase = pass_page(), phase
  if cursor == '0' then
    phase = ''
    if not fence.rebuild and ARGV[4] == '' then
      phase = ({ claims = 'members', members = keys.fans and 'fans' })[last_phase] or ''
    end
  end
  pages = pages + 1
until phase == '' or looked >= tonumber(ARGV[5]) or pages >= MOST_PAGES

-- 4. The end. A whole pass leaves as many members and fans as the claims say. If the scripts have counted other numbers
-- of fans or guests, somebody else wrote a claim in the place of another one.
if last_phase == 'fans' and phase == '' and not fence.rebuild and differs(fence, read_sizes(keys)) then
  forget(fence, keys, known)
end
if phase == '' then
  each_dead(function(gateway, _, is_marked)
    if is_marked then
      fence.entries = fence.entries - redis.call('HDEL', keys.gateways, gateway)
      fence.has_changed = true
    end
  end)
end
if fence.has_changed then
  move_on(fence)
  write_fence(keys.fence, fence, ARGV[8])
end
return { phase, cursor, released, strays, missing, size_of(fence, keys) }
