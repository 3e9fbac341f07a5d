-- One gateway's change to one slice.
-- KEYS  1 slice  2 the gateway's held set  3 gateways  4 fence  5 invisible members
--       6 since when members are there, if the set keeps it; last seen, if they are the users of the platform
--       7 stays  8 sessions, both if the live has attendance
-- ARGV  1 epoch  2 gateway  3 number  4 the number that this call follows, or empty: the call makes the entry
--       5 the latest time, ms, at which the call may make the entry  6 lifetime, s  7 prefix of held sets
--       8 lifetime of sessions, s  9 text | u32 of the users of the platform, otherwise empty  10 count of joins
--       11 how many of them are invisible, the first ones  12 count of leaves
--       13 the newest version that the gateway knows of the slice in this epoch, or 0
--       14… joins, then, if the set keeps since when they are there, as many times in ms, then leaves, then, if it is
--       known when they were there last, as many times in ms or empty
-- Returns  {'done', card, held, version, 1 while the slice is in doubt} | {'closed'} | {'newer', epoch} | {'old'} | {'unknown'} | {'late', now in ms}

-- Notes since when users are there, whose times follow the argument `last_join`. Of a user who is in the slice already,
-- the earlier time stays.
local function note_since(slice, since, joins, last_join)
  local there = redis.call('SMISMEMBER', slice, unpack(joins))
  local known = redis.call('HMGET', since, unpack(joins))
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
    redis.call('HSET', since, unpack(fields))
  end
end

-- Begins the sessions of those who are not invisible, whose times follow the argument `last_join`.
local function begin_listed_stays(joins, last_join, id)
  local listed, since = {}, {}
  for i, hidden in ipairs(redis.call('SMISMEMBER', KEYS[5], unpack(joins))) do
    if hidden == 0 then
      listed[#listed + 1] = joins[i]
      since[#since + 1] = tonumber(ARGV[last_join + i])
    end
  end
  if #listed > 0 then
    begin_stays(KEYS[7], KEYS[8], id, listed, function(i) return since[i] end)
  end
end

-- Notes of users of the platform who are about to become invisible that they are seen now: they will seem to have left.
local function note_visible(seen, form, users)
  local there, hidden = redis.call('SMISMEMBER', KEYS[1], unpack(users)), hidden_of(KEYS[5], users)
  for i, is_there in ipairs(there) do
    hidden[i] = (is_there == 0 or hidden[i] == 1) and 1 or 0
  end
  local now = clock()
  note_last_seen(seen, form, users, hidden, function() return now end)
end

-- Forgets of users of the platform when they were seen last, now that everybody may see that they are here.
local function forget_last_seen(seen, form, users)
  local hidden, here = hidden_of(KEYS[5], users), {}
  for i, user in ipairs(users) do
    if hidden[i] ~= 1 then
      here[#here + 1] = seen_member(form, user)
    end
  end
  if #here > 0 then
    redis.pcall('ZREM', seen, unpack(here))
  end
end

-- When users left, whose times follow the argument `last_leave`. A user without a time left at this moment. Users of the
-- platform whom the slice does not have get no time then: they may have been invisible.
local function times_left(leaves, last_leave, seen)
  local left, unknown = {}, {}
  for i, user in ipairs(leaves) do
    left[user] = tonumber(ARGV[last_leave + i])
    if not left[user] then
      unknown[#unknown + 1] = user
    end
  end
  if #unknown > 0 then
    local now, there = clock(), seen and redis.call('SMISMEMBER', KEYS[1], unpack(unknown))
    for i, user in ipairs(unknown) do
      left[user] = (not there or there[i] == 1) and now or nil
    end
  end
  return left
end

local epoch, me, number, follows = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local form = ARGV[9]
local since, seen = since_or_seen(KEYS[6], form)
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

local last_join = 13 + tonumber(ARGV[10])
local last_time = since and last_join + tonumber(ARGV[10]) or last_join
local last_leave = last_time + tonumber(ARGV[12])
local leaves = { unpack(ARGV, last_time + 1, last_leave) }
if last_join == 13 or #leaves > 0 then
  -- This write comes first: a full Redis accepts it (see prelude.lua).
  redis.call('SREM', KEYS[2], '', unpack(leaves))
end
local before = begins and 0 or redis.call('SCARD', KEYS[1])
if begins then
  fence = { epoch = epoch, version = fence.version, count = 0 }
end
compare_size(fence, before, tonumber(ARGV[13]))
if begins then
  -- Before anything is wiped: a full Redis then refuses a call of joins as a whole.
  move_on(KEYS[4], fence, ARGV[6])
  wipe(KEYS[1], KEYS[3], ARGV[7], KEYS[5], since)
end
redis.call('HSET', KEYS[3], me, number)
-- The sessions that begin with this call have this number.
local id = next_version(fence.version)
if last_join > 13 then
  local joins, invisible = { unpack(ARGV, 14, last_join) }, tonumber(ARGV[11])
  if since then
    note_since(KEYS[1], since, joins, last_join)
  end
  if invisible > 0 then
    local hidden = { unpack(joins, 1, invisible) }
    if seen then
      note_visible(seen, form, hidden)
    end
    redis.call('SADD', KEYS[5], unpack(hidden))
  end
  if KEYS[7] then
    begin_listed_stays(joins, last_join, id)
  end
  redis.call('SADD', KEYS[2], unpack(joins))
  redis.call('SADD', KEYS[1], unpack(joins))
  if seen then
    forget_last_seen(seen, form, joins)
  end
end
if #leaves > 0 then
  local left = (KEYS[7] or seen) and times_left(leaves, last_leave, seen)
  local ended = on_end(KEYS[7], seen, form, function(user) return left[user] end)
  drop_unheld(KEYS[1], KEYS[3], ARGV[7], KEYS[5], since, leaves, ended)
end
local card = redis.call('SCARD', KEYS[1])
fence.count = fence.count + card - before
local version = move_on(KEYS[4], fence, ARGV[6])
for i, key in ipairs(KEYS) do
  if i ~= 4 and key ~= seen then
    redis.call('EXPIRE', key, i < 7 and ARGV[6] or ARGV[8])
  end
end
return { 'done', card, redis.call('SCARD', KEYS[2]), version, doubt_flag(fence) }
