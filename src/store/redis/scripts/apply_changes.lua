-- Applies one gateway's change to one slice.
-- KEYS  1 members  2 the gateway's held set  3 gateways  4 fence
--       5 notes on members: since when each is in the live; in which lives each user of the platform is; streamers
--       have none
--       of the users of the platform:  6 last seen
--       of a live:  6 fans  7 the gateway's held fans  8 different viewers  9 different fans
--       10 stays  11 sessions, both if the live has attendance
-- ARGV  1 epoch  2 gateway  3 number  4 number of the call that this one follows, or empty: this call makes the entry
--       5 the latest time, ms, at which the call may make the entry  6 lifetime, s  7 prefix of held sets
--       8 prefix of held fans  9 lifetime of sessions, s  10 text | u32 of the users of the platform, otherwise empty
--       11 count of joins of viewers who are no fans  12 count of joins of fans  13 count of leaves
--       14 the newest version of the slice in this epoch that the gateway knows, or 0  15 how many members came by then
--       16 how many left  17 how many fans were there  18 1 if the slice counts different users, or empty
--       19 lifetime of the totals, s
--       20… joins, fans last; then, if the set has notes on members, as many notes: times in ms, or lives with commas
--       between; then leaves; then, if the gateway knows when these users were there last, as many times in ms
-- Returns  {'done', held, held fans, members with a note or empty, SIZE…} | {'closed'} | {'newer', epoch}
--          | {'old'} | {'unknown'} | {'late', now in ms}

-- Notes since when the users in `joins` are there. Their times follow the argument `last_join`. If a user is in the
-- slice already, the earlier time stays.
local function note_since(members, notes, joins, last_join)
  local there = redis.call('SMISMEMBER', members, unpack(joins))
  local known = redis.call('HMGET', notes, unpack(joins))
  local fields = {}
  for i, user in ipairs(joins) do
    local before = there[i] == 1 and tonumber(known[i] or '')
    local at = ARGV[last_join + i]
    if not before or tonumber(at) < before then
      fields[#fields + 1] = user
      fields[#fields + 1] = at
    end
  end
  if #fields > 0 then
    redis.call('HSET', notes, unpack(fields))
  end
end

-- Notes in which lives the users in `joins` are on a gateway. The lists of lives follow the argument `last_join`. The
-- gateway's words about a user come after those of other gateways.
local function note_lives(notes, prefix, gateway, joins, last_join)
  local fields = {}
  for i, value in ipairs(redis.call('HMGET', notes, unpack(joins))) do
    local words = kept_words(value or '', prefix, joins[i], gateway)
    for live in string.gmatch(ARGV[last_join + i], '[^,]+') do
      words[#words + 1] = gateway .. ' ' .. live
    end
    fields[2 * i - 1], fields[2 * i] = joins[i], table.concat(words, ',')
  end
  redis.call('HSET', notes, unpack(fields))
end

-- Counts how many of these users are in a set.
local function count_members(set, users)
  local count = 0
  for _, there in ipairs(redis.call('SMISMEMBER', set, unpack(users))) do
    count = count + there
  end
  return count
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
local form, counts_users = ARGV[10], ARGV[18] ~= ''
local notes = KEYS[5]
local fans_set, seen = fans_or_seen(KEYS[6], form)
local fence = read_fence(KEYS[4])
if fence.epoch > epoch then
  return { 'newer', whole(fence.epoch) }
end
if fence.phase == 'closed' and fence.epoch == epoch then
  return { 'closed' }
end
local begins = not fence.phase or fence.epoch < epoch
local entry = not begins and entry_number(redis.call('HGET', KEYS[3], me))
if not entry then
  local now = clock()
  if follows ~= '' then
    return { 'unknown' }
  elseif now > tonumber(ARGV[5]) then
    return { 'late', whole(now) }
  end
elseif entry ~= follows then
  return { 'old' }
end

local before_joins = 19
local last_viewer = before_joins + tonumber(ARGV[11])
local last_join = last_viewer + tonumber(ARGV[12])
local last_note = notes and last_join + last_join - before_joins or last_join
local last_leave = last_note + tonumber(ARGV[13])
local joins = { unpack(ARGV, before_joins + 1, last_join) }
local leaves = { unpack(ARGV, last_note + 1, last_leave) }
local viewers = fans_set and { unpack(ARGV, before_joins + 1, last_viewer) } or {}
-- In an epoch that has begun, a call that only adds users to a live, or makes them fans, needs no held set of other
-- gateways.
if #leaves > 0 or seen or begins or #viewers > 0 and count_members(KEYS[7], viewers) > 0 then
  require_here(KEYS[3], fans_set and { ARGV[7], ARGV[8] } or { ARGV[7] })
end
local is_of_streamers = not notes
local only_moves = seen and #joins > 0 and count_members(KEYS[2], joins) == #joins
if #joins == 0 or #leaves > 0 or is_of_streamers or only_moves then
  -- This write comes first: a full Redis accepts it (see basics.lua). Streamers are few, and a live must not end
  -- because Redis could not note that its streamer is there. A user who moves from one live to another takes no more
  -- memory.
  redis.call('SREM', KEYS[2], '', unpack(leaves))
end
local size = begins and { members = 0, fans = 0 } or sizes(KEYS[1], fans_set)
if begins then
  fence = { phase = 'open', epoch = epoch, version = fence.version, joins = 0, leaves = 0, fans = 0 }
end
compare_sizes(fence, size, known_from(14))
if begins then
  -- The script writes the fence before it wipes anything: a full Redis then refuses a call of joins as a whole.
  move_on(KEYS[4], fence, ARGV[19])
  wipe(fans_set and { KEYS[1], unpack(KEYS, 5, 9) } or { KEYS[1], notes }, KEYS[3], { ARGV[7], ARGV[8] })
end
redis.call('HSET', KEYS[3], me, number)
-- The sessions that begin with this call have this id.
local id = next_version(fence.version)
local came, left = { members = 0, fans = 0 }, { members = 0, fans = 0 }
if #joins > 0 then
  if seen then
    note_lives(notes, ARGV[7], me, joins, last_join)
  elseif notes then
    note_since(KEYS[1], notes, joins, last_join)
  end
  if KEYS[10] then
    begin_stays(KEYS[10], KEYS[11], id, joins, function(i) return tonumber(ARGV[last_join + i]) end)
  end
  redis.call('SADD', KEYS[2], unpack(joins))
  came.members = redis.call('SADD', KEYS[1], unpack(joins))
  if seen then
    forget_last_seen(seen, form, joins)
  end
end
if fans_set then
  local fans = { unpack(ARGV, last_viewer + 1, last_join) }
  if #fans > 0 then
    redis.call('SADD', KEYS[7], unpack(fans))
    came.fans = redis.call('SADD', fans_set, unpack(fans))
    if counts_users then
      redis.call('PFADD', KEYS[9], unpack(fans))
    end
  end
  for _, user in ipairs(leaves) do
    viewers[#viewers + 1] = user
  end
  left.fans = drop_fans(fans_set, KEYS[7], KEYS[3], ARGV[8], viewers)
  if counts_users and #joins > 0 then
    redis.call('PFADD', KEYS[8], unpack(joins))
  end
end
if #leaves > 0 then
  local last_here = {}
  for i, user in ipairs(leaves) do
    last_here[user] = tonumber(ARGV[last_leave + i])
  end
  local ended = on_end(KEYS[10], seen, form, function(user) return last_here[user] or clock() end)
  if seen then
    drop_words(notes, ARGV[7], leaves)
  end
  left.members = drop_unheld(KEYS[1], KEYS[3], ARGV[7], notes, leaves, ended)
end
count_change(fence, size, came, left)
move_on(KEYS[4], fence, ARGV[19])
local lifetimes = {
  ARGV[6], ARGV[6], ARGV[6], nil, ARGV[6], fans_set and ARGV[6], ARGV[6], ARGV[19], ARGV[19], ARGV[9], ARGV[9],
}
for i, key in ipairs(KEYS) do
  if lifetimes[i] then
    redis.call('EXPIRE', key, lifetimes[i])
  end
end
local held_fans = KEYS[7] and redis.call('SCARD', KEYS[7]) or 0
local noted = notes and whole(redis.call('HLEN', notes)) or ''
return { 'done', redis.call('SCARD', KEYS[2]), held_fans, noted, size_of(fence) }
