-- One gateway's change to one slice.
-- KEYS  1 slice  2 the gateway's held set  3 gateways  4 fence  5 different users
--       6 since when members are there, if the set keeps it; last seen, if they are the users of the platform
--       7 stays  8 sessions, both if the live has attendance
-- ARGV  1 epoch  2 gateway  3 number  4 the number that this call follows, or empty: the call makes the entry
--       5 the latest time, ms, at which the call may make the entry  6 lifetime, s  7 prefix of held sets
--       8 lifetime of sessions, s  9 text | u32 of the users of the platform, otherwise empty  10 count of joins
--       11 count of leaves  12 the newest version that the gateway knows of the slice in this epoch, or 0
--       13 how many came by then, and 14 how many left  15 1 if different users are counted, or empty
--       16 lifetime of the totals, s
--       17… joins, then, if the set keeps since when they are there, as many times in ms, then leaves, then, if it is
--       known when they were there last, as many times in ms
-- Returns  {'done', held, members, how many left, version, 1 while the slice is in doubt} | {'closed'} | {'newer', epoch}
--           | {'old'} | {'unknown'} | {'late', now in ms}

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

local before_joins = 16
local last_join = before_joins + tonumber(ARGV[10])
local last_time = since and last_join + tonumber(ARGV[10]) or last_join
local last_leave = last_time + tonumber(ARGV[11])
local leaves = { unpack(ARGV, last_time + 1, last_leave) }
if last_join == before_joins or #leaves > 0 then
  -- This write comes first: a full Redis accepts it (see prelude.lua).
  redis.call('SREM', KEYS[2], '', unpack(leaves))
end
local size = begins and 0 or redis.call('SCARD', KEYS[1])
if begins then
  fence = { phase = 'open', epoch = epoch, version = fence.version, joins = 0, leaves = 0 }
end
compare_size(fence, size, { version = tonumber(ARGV[12]), joins = tonumber(ARGV[13]), leaves = tonumber(ARGV[14]) })
if begins then
  -- Before anything is wiped: a full Redis then refuses a call of joins as a whole.
  move_on(KEYS[4], fence, ARGV[16])
  wipe(KEYS[1], KEYS[3], ARGV[7], { KEYS[5], since })
end
redis.call('HSET', KEYS[3], me, number)
-- The sessions that begin with this call have this number.
local id = next_version(fence.version)
local came, left = 0, 0
if last_join > before_joins then
  local joins = { unpack(ARGV, before_joins + 1, last_join) }
  if since then
    note_since(KEYS[1], since, joins, last_join)
  end
  if KEYS[7] then
    begin_stays(KEYS[7], KEYS[8], id, joins, function(i) return tonumber(ARGV[last_join + i]) end)
  end
  redis.call('SADD', KEYS[2], unpack(joins))
  came = redis.call('SADD', KEYS[1], unpack(joins))
  if ARGV[15] ~= '' then
    redis.call('PFADD', KEYS[5], unpack(joins))
  end
  if seen then
    forget_last_seen(seen, form, joins)
  end
end
if #leaves > 0 then
  local last_here = {}
  for i, user in ipairs(leaves) do
    last_here[user] = tonumber(ARGV[last_leave + i])
  end
  local ended = on_end(KEYS[7], seen, form, function(user) return last_here[user] or clock() end)
  left = drop_unheld(KEYS[1], KEYS[3], ARGV[7], since, leaves, ended)
end
count_change(fence, size, came, left)
move_on(KEYS[4], fence, ARGV[16])
redis.call('EXPIRE', KEYS[5], ARGV[16])
for i, key in ipairs(KEYS) do
  if i < 4 or i > 5 and key ~= seen then
    redis.call('EXPIRE', key, i < 7 and ARGV[6] or ARGV[8])
  end
end
return { 'done', redis.call('SCARD', KEYS[2]), size_of(fence) }
