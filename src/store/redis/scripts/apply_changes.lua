-- Applies one gateway's change to one slice: what the gateway claims of some users from now on.
-- KEYS  1 members  2 claims  3 gateways  4 fence
--       of the users of the platform:  5 last seen
--       of a live:  5 fans  6 different viewers  7 different fans  8 confirmed viewers
--       9 stays  10 sessions, both if the live has attendance
-- ARGV  1 epoch  2 gateway  3 number  4 number of the call that this one follows, or empty: this call makes the entry
--       5 the latest time, ms, at which the call may make the entry
--       6 more: the gateway has more to say | bye: it lets go of the slice, and the entry goes | empty
--       7 lifetime, s  8 lifetime of sessions, s  9 lifetime of the totals, s
--       10 text | u32 of the users of the platform, otherwise empty  11 1 if the slice counts different users, or empty
--       12 the newest version of the slice in this epoch that the gateway knows, or 0  13 how many members came by then
--       14 how many left  15 fans  16 guests  17 count of joins of users who are no fans  18 count of joins of fans
--       19 count of leaves  20… joins, fans last; then leaves; then for each join, if it is a live, since when the user is there, ms, or,
--       if it is the platform, the lives with commas between; then, if the gateway knows when the users who leave were
--       there last, as many times in ms
-- Returns  {'done', SIZE…} | {'over'} | {'late', now in ms} | {'refused', number of the entry or empty, SIZE… if the
--          slice belongs to the epoch and the gateway was not buried}

-- Counts different users. A key that cannot count belongs to another program.
local function count_different(key, users)
  if #users > 0 and type(redis.pcall('PFADD', key, unpack(users))) == 'table' then
    redis.call('UNLINK', key)
    redis.call('PFADD', key, unpack(users))
  end
end

-- Removes the last-seen times of users of the platform, because these users are online now.
local function forget_last_seen(seen, form, users)
  local here = {}
  for i, user in ipairs(users) do
    here[i] = seen_member(form, user)
  end
  redis.pcall('ZREM', seen, unpack(here))
end

local epoch, me, number, follows = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local form, counts_users, known = ARGV[10], ARGV[11] ~= '', known_from(12)
local is_of_platform, is_of_streamers = form ~= '', not KEYS[5]
local keys = {
  members = KEYS[1], who = KEYS[2], gateways = KEYS[3], fence = KEYS[4], fans = not is_of_platform and KEYS[5],
  seen = is_of_platform and KEYS[5], confirmed = KEYS[8], stays = KEYS[9], sessions = KEYS[10],
}

-- Ends a call that changes no user. What the guard has done stays.
local function refuse(fence, ...)
  if fence.has_changed then
    -- This write comes first: a full Redis accepts it (see basics.lua).
    redis.call('SREM', keys.members, '')
    write_fence(keys.fence, fence, ARGV[9])
  end
  return { ... }
end

-- 1. The fence.
local fence = read_fence(keys.fence)
if fence.epoch > epoch or fence.phase == 'closed' and fence.epoch == epoch then
  return { 'over' }
end
local begins = not fence.phase or fence.epoch < epoch
if not begins then
  guard(fence, keys, known)
end

-- 2. The entry.
local entry = not begins and redis.call('HGET', keys.gateways, me)
local token, entry_number = read_entry(entry)
if entry_number == 'dead' then
  return refuse(fence, 'refused', '')
elseif (entry_number or '') ~= follows and begins then
  return { 'refused', '' }
elseif (entry_number or '') ~= follows then
  return refuse(fence, 'refused', entry_number or '', size_of(fence, keys))
end
local now = clock()
if not token and now > tonumber(ARGV[5]) then
  return refuse(fence, 'late', now)
end

-- 3. The begin of an epoch. Without a fence, the public sets stay.
local is_over = begins and fence.phase
if begins then
  local sizes = read_sizes(keys)
  local has_keys = sizes.members + sizes.fans + sizes.claimed + sizes.entries > 0
  fence = new_fence('open', epoch, fence.version)
  if known.version > 0 or has_keys and not is_over then
    forget(fence, keys, known)
  else
    move_on(fence)
    fence.incarnation = fence.version
  end
end

-- 4. The number.
move_on(fence)
local is_bye, is_new = ARGV[6] == 'bye', not token
if is_new then
  fence.last_token = fence.last_token + 1
  token = whole(fence.last_token)
end
-- For the users of the platform, the name of the token is a second field.
local second = is_of_platform and 1 or 0
if is_bye then
  fence.entries = fence.entries - (entry and 1 or 0) - (is_new and 0 or second)
else
  fence.entries = fence.entries + (entry and 0 or 1) + (is_new and second or 0)
end

-- 5. The claims. The script decides everything before it writes anything.
local before = 19
local last_viewer = before + tonumber(ARGV[17])
local last_join = last_viewer + tonumber(ARGV[18])
local last_leave = last_join + tonumber(ARGV[19])
local last_note = is_of_streamers and last_leave or last_leave + last_join - before
local joins, users = { unpack(ARGV, before + 1, last_join) }, { unpack(ARGV, before + 1, last_leave) }
local old_values = begins and {} or claims_on(keys.who, users)
local pattern, last_here = claim_of(token), {}
local fields, unclaimed, gone, fans, no_fans = {}, {}, {}, {}, {}
local came, only_moves = 0, is_of_platform and #joins > 0
local shown, places = joins, nil

-- Returns what the gateway claims of a user who joins, and since when the user is there.
local function claim_on(place)
  local claim, note = ' ' .. token, ARGV[last_leave + place]
  if is_of_streamers then
    return claim, ''
  elseif is_of_platform then
    return claim .. '=' .. note, ''
  end
  return before + place > last_viewer and claim .. 'f' or claim, note
end

for place, user in ipairs(users) do
  local old, new = old_values[place] or nil, nil
  if place <= #joins then
    new = put_in(old, pattern, claim_on(place))
    came = came + (old and 0 or 1)
    only_moves = only_moves and old and string.find(old, pattern)
  else
    new = old and take_out(old, pattern)
    last_here[user] = tonumber(ARGV[last_note + place - #joins])
    if not new then
      gone[#gone + 1] = user
    end
    if old and not new then
      unclaimed[#unclaimed + 1] = user
    end
  end
  if new and new ~= old then
    fields[#fields + 1] = user
    fields[#fields + 1] = new
  end
  if is_guest(user) then
    fence.guests = math.max(0, fence.guests + (new and 1 or 0) - (old and 1 or 0))
    if not places then
      shown, places = without_guests(joins)
    end
  end
  if keys.fans then
    local was_fan, is_fan = says_fan(old, user), says_fan(new, user)
    local list = is_fan and fans or no_fans
    list[#list + 1] = user
    fence.fans = math.max(0, fence.fans + (is_fan and 1 or 0) - (was_fan and 1 or 0))
  end
end
local rebuild = fence.rebuild
if not rebuild then
  fence.joins, fence.leaves = fence.joins + came, fence.leaves + #unclaimed
elseif rebuild.claimed >= 0 then
  rebuild.claimed = rebuild.claimed + came - #unclaimed
end

if #joins == 0 or #users > #joins or is_of_streamers or only_moves then
  -- This write comes first: a full Redis accepts it (see basics.lua). Streamers are few, and a live must not end
  -- because Redis could not note that its streamer is there. A user who moves from one live to another takes no more
  -- memory. A full Redis refuses any other call as a whole, at the write of the fence.
  redis.call('SREM', keys.members, '')
end
write_fence(keys.fence, fence, ARGV[9])
if is_over then
  redis.call('UNLINK', keys.members, keys.who, keys.gateways)
  if keys.fans then
    redis.call('UNLINK', unpack(KEYS, 5, 7))
  end
end
if is_bye then
  redis.call('HDEL', keys.gateways, me, '#' .. token)
else
  redis.call('HSET', keys.gateways, me, token .. ':' .. number .. (ARGV[6] == 'more' and '+' or ''))
end
if is_of_platform and is_new and not is_bye then
  redis.call('HSET', keys.gateways, '#' .. token, me)
end
write_claims(keys.who, fields, unclaimed)
-- In a rebuild nobody leaves the public sets.
change_set(keys.members, shown, {})
if keys.fans then
  change_set(keys.fans, fans, rebuild and {} or no_fans)
end
if not rebuild then
  drop_members(keys, form, gone, function(user) return last_here[user] or now end)
end
if #shown > 0 and keys.stays then
  -- The sessions that begin with this call have its version as their id.
  begin_stays(keys.stays, keys.sessions, whole(fence.version), shown,
    function(place) return tonumber(ARGV[last_leave + (places and places[place] or place)]) end)
end
if #joins > 0 and keys.seen then
  forget_last_seen(keys.seen, form, joins)
end
if counts_users then
  count_different(KEYS[6], joins)
  count_different(KEYS[7], { unpack(ARGV, last_viewer + 1, last_join) })
end
local lifetimes = {
  ARGV[7], ARGV[7], ARGV[7], nil, keys.fans and ARGV[7], ARGV[9], ARGV[9], nil, ARGV[8], ARGV[8],
}
for i, key in ipairs(KEYS) do
  if lifetimes[i] then
    redis.call('EXPIRE', key, lifetimes[i])
  end
end
return { 'done', size_of(fence, keys) }
