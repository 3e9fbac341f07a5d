-- One gateway's change to one slice.
-- KEYS  1 slice  2 the gateway's held set  3 gateways  4 fence
--       5 since when members are there, if the set keeps it; last seen, if they are the users of the platform
--       6 stays  7 sessions, both if the live has attendance
-- ARGV  1 epoch  2 gateway  3 number  4 the number that this call follows, or empty: the call makes the entry
--       5 the latest time, ms, at which the call may make the entry  6 lifetime, s  7 prefix of held sets
--       8 lifetime of sessions, s  9 text | u32 of the users of the platform, otherwise empty  10 count of joins
--       11 count of leaves  12 the newest version that the gateway knows of the slice in this epoch, or 0
--       13… joins, then, if the set keeps since when they are there, as many times in ms, then leaves, then, if it is
--       known when they were there last, as many times in ms
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

-- Forgets of users of the platform when they were seen last, now that they are here.
local function forget_last_seen(seen, form, users)
  local here = {}
  for i, user in ipairs(users) do
    here[i] = seen_member(form, user)
  end
  redis.pcall('ZREM', seen, unpack(here))
end

local epoch, me, number, follows = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local form = ARGV[9]
local since, seen = since_or_seen(KEYS[5], form)
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

local last_join = 12 + tonumber(ARGV[10])
local last_time = since and last_join + tonumber(ARGV[10]) or last_join
local last_leave = last_time + tonumber(ARGV[11])
local leaves = { unpack(ARGV, last_time + 1, last_leave) }
if last_join == 12 or #leaves > 0 then
  -- This write comes first: a full Redis accepts it (see prelude.lua).
  redis.call('SREM', KEYS[2], '', unpack(leaves))
end
local before = begins and 0 or redis.call('SCARD', KEYS[1])
if begins then
  fence = { epoch = epoch, version = fence.version, count = 0 }
end
compare_size(fence, before, tonumber(ARGV[12]))
if begins then
  -- Before anything is wiped: a full Redis then refuses a call of joins as a whole.
  move_on(KEYS[4], fence, ARGV[6])
  wipe(KEYS[1], KEYS[3], ARGV[7], since)
end
redis.call('HSET', KEYS[3], me, number)
-- The sessions that begin with this call have this number.
local id = next_version(fence.version)
if last_join > 12 then
  local joins = { unpack(ARGV, 13, last_join) }
  if since then
    note_since(KEYS[1], since, joins, last_join)
  end
  if KEYS[6] then
    begin_stays(KEYS[6], KEYS[7], id, joins, function(i) return tonumber(ARGV[last_join + i]) end)
  end
  redis.call('SADD', KEYS[2], unpack(joins))
  redis.call('SADD', KEYS[1], unpack(joins))
  if seen then
    forget_last_seen(seen, form, joins)
  end
end
if #leaves > 0 then
  local left = {}
  for i, user in ipairs(leaves) do
    left[user] = tonumber(ARGV[last_leave + i])
  end
  local ended = on_end(KEYS[6], seen, form, function(user) return left[user] or clock() end)
  drop_unheld(KEYS[1], KEYS[3], ARGV[7], since, leaves, ended)
end
local card = redis.call('SCARD', KEYS[1])
fence.count = fence.count + card - before
local version = move_on(KEYS[4], fence, ARGV[6])
for i, key in ipairs(KEYS) do
  if i ~= 4 and key ~= seen then
    redis.call('EXPIRE', key, i < 6 and ARGV[6] or ARGV[8])
  end
end
return { 'done', card, redis.call('SCARD', KEYS[2]), version, doubt_flag(fence) }
