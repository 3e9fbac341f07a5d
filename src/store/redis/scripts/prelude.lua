-- Shared by every script; put before its text. Nothing here touches a key until it is called.
--
-- A full Redis refuses a script at its first command that may need memory, unless the script has written before. So a
-- script that frees memory, or that must work although Redis is full, begins with a write that needs no memory.

-- The node's own clock, in Unix milliseconds, and in microseconds.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2]
end

-- A whole number as text; Lua's own way would write 1e+14.
local function whole(n)
  return string.format('%.0f', n)
end

-- Ends the script: another program wrote this key, or a bug did.
local function nonsense(what)
  error({ err = 'NONSENSE ' .. what })
end

-- Publishes on a live's channel what a script changed, and returns the script's answer, a list. If Redis refuses the
-- message, the change is made all the same, and the answer begins with 'not published' and Redis's own sentence.
local function publish(channel, message, answer)
  local said = redis.pcall('SPUBLISH', channel, message)
  if type(said) == 'table' and said.err then
    table.insert(answer, 1, said.err)
    table.insert(answer, 1, 'not published')
  end
  return answer
end

-- The fence of a slice: 'open:<epoch>:<version>:<joins>-<leaves>:<fans>', with ':<not before>' behind it while the slice
-- is in doubt, or 'closed:<epoch>:<joins>-<leaves>:<different viewers>:<different fans>'. The scripts count who came to
-- the slice and who left it, over all gateways, so it has as many members as came and did not leave, and they count the
-- fans among them. `not_before` is when the doubt may end, ms. Without a fence `phase` is nil.
local function read_fence(key)
  local value = redis.call('GET', key)
  if not value then
    return { epoch = 0, version = 0, joins = 0, leaves = 0, fans = 0 }
  end
  local epoch, version, joins, leaves, fans, not_before =
    string.match(value, '^open:(%d+):(%d+):(%d+)-(%d+):(%d+):?(%d*)$')
  if epoch then
    return {
      phase = 'open', epoch = tonumber(epoch), version = tonumber(version), joins = tonumber(joins),
      leaves = tonumber(leaves), fans = tonumber(fans), not_before = tonumber(not_before),
    }
  end
  local viewers
  epoch, joins, leaves, viewers, fans = string.match(value, '^closed:(%d+):(%d+)-(%d+):(%d+):(%d+)$')
  if not epoch then
    nonsense('fence')
  end
  return {
    phase = 'closed', epoch = tonumber(epoch), version = 0, joins = tonumber(joins), leaves = tonumber(leaves), fans = 0,
    unique_viewers = tonumber(viewers), unique_fans = tonumber(fans),
  }
end

-- The next version. It follows the clock, so that versions keep growing after a slice's data was lost, and it grows
-- even if the clock goes back.
local function next_version(version)
  local _, micros = clock()
  return whole(math.max(version + 1, micros))
end

-- How many members a slice has by the count of the scripts.
local function counted(fence)
  return fence.joins - fence.leaves
end

-- How many members a slice has, and how many of them are fans. A set without fans has no key for them.
local function sizes(members, fans)
  return { members = redis.call('SCARD', members), fans = fans and redis.call('SCARD', fans) or 0 }
end

-- What a gateway knows of a slice, in arguments from `first` on: its version in this epoch, or 0, and how many came, how
-- many left and how many fans were there by then.
local function known_from(first)
  return {
    version = tonumber(ARGV[first]), joins = tonumber(ARGV[first + 1]), leaves = tonumber(ARGV[first + 2]),
    fans = tonumber(ARGV[first + 3]),
  }
end

-- Begins a doubt if a slice with this open fence has other sizes than the scripts counted: another program wrote to it.
-- A version that is older than the one `known` to a gateway says more: the store lost writes. Every gateway then has to
-- find that out and to write again whom it holds, which takes up to 10 s. Who came and left by then stays counted.
local function compare_sizes(fence, size, known)
  if known and known.version > fence.version then
    fence.not_before = clock() + 10000
    -- The next version is newer than every one that gateways know, even if the clock is behind.
    fence.version = known.version
    fence.joins, fence.leaves = math.max(fence.joins, known.joins), math.max(fence.leaves, known.leaves)
    fence.fans = known.fans
  elseif counted(fence) ~= size.members or fence.fans ~= size.fans then
    fence.not_before = fence.not_before or 0
  end
  if fence.not_before then
    -- The clock may have gone back since.
    fence.not_before = math.min(fence.not_before, clock() + 10000)
  end
end

-- Counts members who came to a slice that had this size before, and who left it. While members are missing, those who
-- come are taken for them: they were counted before. So it is with fans.
local function count_change(fence, size, came, left)
  local missing = math.max(0, counted(fence) - size.members)
  local missing_fans = math.max(0, fence.fans - size.fans)
  fence.joins = fence.joins + math.max(0, came.members - missing)
  -- Another program may have put somebody there who came to a gateway later, and was not counted.
  fence.leaves = math.min(fence.joins, fence.leaves + left.members)
  fence.fans = math.max(0, fence.fans + math.max(0, came.fans - missing_fans) - left.fans)
end

-- Writes an open fence with the next version. Without a lifetime it keeps the one that it has.
local function move_on(key, fence, lifetime)
  local version = next_version(fence.version)
  fence.version = tonumber(version)
  local value = 'open:' .. whole(fence.epoch) .. ':' .. version .. ':' .. whole(fence.joins) .. '-' .. whole(fence.leaves)
    .. ':' .. whole(fence.fans)
  if fence.not_before then
    value = value .. ':' .. whole(fence.not_before)
  end
  if lifetime then
    redis.call('SET', key, value, 'EX', lifetime)
  else
    redis.call('SET', key, value, 'KEEPTTL')
  end
end

-- The size of a slice, as scripts answer it, SIZE in their heads: members, fans, how many left, version, 1 while the
-- slice is in doubt.
local function size_of(fence)
  if fence.phase ~= 'open' then
    return '0', '0', '0', whole(fence.version), 0
  end
  return whole(counted(fence)), whole(fence.fans), whole(fence.leaves), whole(fence.version), fence.not_before and 1 or 0
end

-- The number in a gateway's entry, as text; nil if there is none. A former version of this program wrote entries
-- without a number: such a gateway counts as unknown, and the members that it holds stay.
local function entry_number(value)
  return value and string.match(value, '^%d+$')
end

-- Ends the script if a held set has moved to another node already: Redis moves the keys of a slot one by one, and a script
-- may name held sets only as it goes. Called before anything is written, so that no script ends half way.
local function require_here(gateways, prefixes)
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    for _, prefix in ipairs(prefixes) do
      redis.call('EXISTS', prefix .. gateway)
    end
  end
end

-- The members whom no gateway holds. Asks each gateway only for those that no earlier one holds.
local function unheld(gateways, prefix, members)
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    if #members == 0 then
      return members
    end
    local held = prefix .. gateway
    if redis.call('EXISTS', held) == 1 then
      local holds = redis.call('SMISMEMBER', held, unpack(members))
      local left = {}
      for i, member in ipairs(members) do
        if holds[i] == 0 then
          left[#left + 1] = member
        end
      end
      members = left
    end
  end
  return members
end

-- A user's latest session, as the hash of stays has it: '<number> <before> <id> <joined> <left>'; nil if there is none.
-- `left` is nil while the user is here.
local function read_stay(value)
  if not value then
    return nil
  end
  local number, before, id, joined, left = string.match(value, '^(%d+) (%d+) (%d+) (%d+) ([%d-]+)$')
  if not number then
    nonsense('stay')
  end
  local stay = { number = tonumber(number), before = tonumber(before), id = id }
  stay.joined, stay.left = tonumber(joined), tonumber(left)
  return stay
end

local function put_stay(fields, user, stay)
  fields[#fields + 1] = user
  fields[#fields + 1] = whole(stay.number) .. ' ' .. whole(stay.before) .. ' ' .. stay.id .. ' ' .. whole(stay.joined)
    .. ' ' .. (stay.left and whole(stay.left) or '-')
end

-- Up to which break, in ms, a user with so many sessions goes on with the last one: see `Stays::enter`.
local function bridged(number)
  return number < 64 and 0 or number < 256 and 60000 or math.huge
end

-- The first join of users, over all gateways, or another one: begins sessions of those who were not here. `at` tells
-- since when a user is here. Who came back before the time at which the last session ended was never away, and goes on
-- with it: calls of two gateways may arrive in any order. So does one with many sessions after a short break.
local function begin_stays(stays, sessions, id, users, at)
  local fields, entered = {}, {}
  local function enter(user, stay)
    entered[#entered + 1] = whole(stay.joined)
    entered[#entered + 1] = user .. ' ' .. whole(stay.number)
  end
  local known = redis.call('HMGET', stays, unpack(users))
  for i, user in ipairs(users) do
    local stay, time = read_stay(known[i]), at(i)
    if not stay or stay.left and time > stay.left + bridged(stay.number) then
      local number, before = 1, 0
      if stay then
        number, before = stay.number + 1, stay.before + stay.left - stay.joined
        fields[#fields + 1] = user .. ' ' .. whole(stay.number)
        fields[#fields + 1] = stay.id .. ' ' .. whole(stay.joined) .. ' ' .. whole(stay.left)
      end
      stay = { number = number, before = before, id = id, joined = time }
      put_stay(fields, user, stay)
      enter(user, stay)
    elseif stay.left or stay.number == 1 and time < stay.joined then
      stay.left = nil
      if stay.number == 1 and time < stay.joined then
        stay.joined = time
        enter(user, stay)
      end
      put_stay(fields, user, stay)
    end
  end
  if #fields > 0 then
    redis.call('HSET', stays, unpack(fields))
  end
  if #entered > 0 then
    redis.call('ZADD', sessions, unpack(entered))
  end
end

-- The last leave of users, over all gateways: ends their sessions. `at` tells when a user was here last.
local function end_stays(stays, gone, at)
  local fields = {}
  for i, value in ipairs(redis.call('HMGET', stays, unpack(gone))) do
    local stay = read_stay(value)
    if stay and not stay.left then
      stay.left = math.max(stay.joined, at(gone[i]))
      put_stay(fields, gone[i], stay)
    end
  end
  if #fields > 0 then
    redis.call('HSET', stays, unpack(fields))
  end
end

-- A user as a member of last-seen: the id, or four bytes. An id that is no such number gives a member that none is.
local function seen_member(form, user)
  if form ~= 'u32' then
    return user
  end
  local number = (user == '0' or string.match(user, '^[1-9]%d*$')) and #user <= 10 and tonumber(user)
  return number and number < 4294967296 and struct.pack('>I4', number) or ''
end

-- Notes when users, at most 1,000, were seen last. Of two times the later one stays. If another program has put
-- something else in the place of the times, nothing is noted, so that who is online can change all the same.
local function note_last_seen(seen, form, users, at)
  local noted = {}
  for _, user in ipairs(users) do
    local member = seen_member(form, user)
    if member ~= '' then
      noted[#noted + 1] = whole(at(user))
      noted[#noted + 1] = member
    end
  end
  if #noted > 0 then
    redis.pcall('ZADD', seen, 'GT', unpack(noted))
  end
end

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

-- A record as the flat list of its fields, behind a word.
local function answer(word, key)
  local fields = redis.call('HGETALL', key)
  table.insert(fields, 1, word)
  return fields
end

-- Writes those fields of a record that have a value: {name, value, …}.
local function put_given(key, fields)
  for i = 1, #fields, 2 do
    if fields[i + 1] ~= '' then
      redis.call('HSET', key, fields[i], fields[i + 1])
    end
  end
end

-- Whether removals of this epoch can be noted: nil and the number of the last one, or why not.
local function read_book(record, epoch)
  local state, present, last = unpack(redis.call('HMGET', record, 'state', 'epoch', 'removals'))
  if not state and redis.call('EXISTS', record) == 0 then
    return 'absent'
  end
  if state ~= 'open' or present ~= epoch then
    return 'over'
  end
  return nil, tonumber(last or '0') or 0
end

-- Drops bans that have run out, up to 1,000 a call.
local function forget_ended(bans, now)
  local ended = redis.call('ZRANGE', bans, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, 1000)
  if #ended > 0 then
    redis.call('ZREM', bans, unpack(ended))
  end
end

-- Notes what happened to a user under the next number, in the place of `before`, and returns the number. Forgets the
-- oldest change when there are too many.
local function note(keys, last, entry, before, most, lifetime)
  local number = whole(last + 1)
  redis.call('HSET', keys[1], 'removals', number)
  redis.call('ZREM', keys[2], before)
  redis.call('ZADD', keys[2], number, entry)
  if redis.call('ZCARD', keys[2]) > tonumber(most) then
    redis.call('ZREM', keys[2], unpack(redis.call('ZRANGE', keys[2], 0, 0)))
  end
  redis.call('EXPIRE', keys[2], lifetime)
  return number
end

-- The figures of a record as the point of its history that they are: they hold since `at`, and belong to a bucket that
-- is over. If the clock went back, the newest point is replaced. The lifetime begins anew once a day.
local function append_point(now, history, at, figures, bucket, most, lifetime)
  local fields = {}
  for i, name in ipairs({ 'viewers', 'fans', 'joins', 'leaves' }) do
    fields[2 * i - 1], fields[2 * i] = name, figures[i] or '0'
  end
  local id = whole(at - at % tonumber(bucket)) .. '-0'
  local added = redis.pcall('XADD', history, 'NOMKSTREAM', 'MAXLEN', '~', most, id, unpack(fields))
  if not added then
    redis.call('XADD', history, id, unpack(fields))
    -- Redis gives the first entry 4 KiB; a stream that is restored has what it needs, and grows from there. A Redis
    -- that refuses this keeps the larger one.
    redis.pcall('RESTORE', history, 0, redis.pcall('DUMP', history), 'REPLACE')
  elseif type(added) == 'table' then
    local last = redis.pcall('XREVRANGE', history, '+', '-', 'COUNT', 1)[1]
    if not last then
      return
    end
    local began, number = string.match(last[1], '^(%d+)-(%d+)$')
    redis.call('XDEL', history, last[1])
    redis.call('XADD', history, began .. '-' .. whole(tonumber(number) + 1), unpack(fields))
  end
  if not added or math.floor(at / 86400000) < math.floor(now / 86400000) then
    redis.call('EXPIRE', history, lifetime)
  end
end

-- How long all viewers of a live were there together, in ms, up to now; the figures of the record hold since `at`.
local function watched_until(now, watched, viewers, at)
  local since = math.max(0, now - (tonumber(at or '') or now))
  return whole((tonumber(watched or '') or 0) + (tonumber(viewers or '') or 0) * since)
end

-- Notes an event of a live in its record, until it is in the stream: a kind and its words. A record that has very many
-- fields takes the close only. Returns whether the event is noted.
local function note_event(record, what, most)
  if redis.call('HLEN', record) >= tonumber(most) and what ~= 'live.closed' then
    return false
  end
  local last = tonumber(redis.call('HGET', record, 'last_event') or '') or 0
  local number = whole(math.max(last + 1, (clock())))
  redis.call('HSET', record, 'last_event', number, 'event:' .. number, what)
  return true
end

-- The higher of what a field of a record says and a number, as text.
local function higher(field, number)
  return whole(math.max(tonumber(field or '') or 0, tonumber(number)))
end
