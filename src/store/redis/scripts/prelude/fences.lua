-- Reads and writes the fence of a slice: its epoch, its version, its counts, and its rebuild. Notices whether somebody
-- else wrote the keys that only the scripts write, and lets the slice forget all claims then.
--
-- These functions take the keys of a slice as a table: `members`, `who`, `gateways`, `fence`; `fans` and `confirmed` of
-- a live, `stays` and `sessions` of a live with attendance; `seen` of the users of the platform.

-- Returns a fence with zeros. The scripts count, over all gateways, how many users got their first claim (`joins`) and
-- how many lost their last one (`leaves`), the users of whom a claim says that they are fans, the guests with a claim,
-- the fields of the hash of entries, and the tokens that they gave away. In a rebuild, `joins` and `leaves` stand still,
-- and `rebuild` says since when it lasts, ms, on how many users there are claims (-1 if somebody else wrote during the
-- rebuild), and how many fans and guests there were before, which gateways are told meanwhile.
local function new_fence(phase, epoch, version)
  return {
    phase = phase, epoch = epoch, version = version, incarnation = 0, joins = 0, leaves = 0, fans = 0, guests = 0,
    entries = 0, last_token = 0,
  }
end

-- Reads a fence. An open one is
-- 'open:<epoch>:<version>:<incarnation>:<joins>-<leaves>:<fans>:<entries>:<last token>', with '-<guests>' behind the
-- fans if there are any, and ':<users with a claim>:<fans>:<guests>:<since>' at the end in a rebuild. A closed one is
-- 'closed:<epoch>:<joins>-<leaves>:<different viewers>:<different fans>'. Without a fence, and with one that no script
-- wrote, `phase` is nil.
local function read_fence(key)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then
    value = value and 'of another type' or ''
  end
  local epoch, version, incarnation, joins, leaves, fans, guests, entries, last_token, rest =
    string.match(value, '^open:(%d+):(%d+):(%d+):(%d+)%-(%d+):(%d+)%-?(%d*):(%d+):(%d+)(.*)$')
  local claimed, shown_fans, shown_guests, since = string.match(rest or '', '^:(%-?%d+):(%d+):(%d+):(%d+)$')
  if claimed or rest == '' then
    return {
      phase = 'open', epoch = tonumber(epoch), version = tonumber(version), incarnation = tonumber(incarnation),
      joins = tonumber(joins), leaves = tonumber(leaves), fans = tonumber(fans), guests = tonumber(guests) or 0,
      entries = tonumber(entries), last_token = tonumber(last_token),
      rebuild = claimed and {
        claimed = tonumber(claimed), since = tonumber(since), fans = tonumber(shown_fans),
        guests = tonumber(shown_guests),
      },
    }
  end
  local unique_viewers, unique_fans
  epoch, joins, leaves, unique_viewers, unique_fans = string.match(value, '^closed:(%d+):(%d+)%-(%d+):(%d+):(%d+)$')
  local fence = new_fence(epoch and 'closed', tonumber(epoch or '0'), 0)
  if epoch then
    fence.joins, fence.leaves = tonumber(joins), tonumber(leaves)
    fence.unique_viewers, fence.unique_fans = tonumber(unique_viewers), tonumber(unique_fans)
  end
  fence.is_foreign = not epoch and value ~= ''
  return fence
end

-- Gives a fence its next version. Versions follow the clock, so that they keep growing after Redis lost a slice's data.
-- They also grow if the clock goes back.
local function move_on(fence)
  local _, micros = clock()
  fence.version, fence.has_changed = math.max(fence.version + 1, micros), true
end

-- Writes an open fence.
local function write_fence(key, fence, lifetime)
  local guests = fence.guests > 0 and '-' .. whole(fence.guests) or ''
  local value = string.format('open:%.0f:%.0f:%.0f:%.0f-%.0f:%.0f%s:%.0f:%.0f', fence.epoch, fence.version,
    fence.incarnation, fence.joins, fence.leaves, fence.fans, guests, fence.entries, fence.last_token)
  if fence.rebuild then
    local rebuild = fence.rebuild
    value = value .. string.format(':%.0f:%.0f:%.0f:%.0f', rebuild.claimed, rebuild.fans, rebuild.guests, rebuild.since)
  end
  redis.call('SET', key, value, 'EX', lifetime)
end

-- Takes the size of a key, as a command answered it. If the command failed, the key has another type: another program
-- wrote it, and the function deletes it.
local function size_or_drop(key, size)
  if type(size) == 'number' then
    return size
  end
  redis.call('UNLINK', key)
  return 0
end

-- Reads how many members, fans, users with a claim and entries a slice has. Deletes its keys of the wrong type.
local function read_sizes(keys)
  if keys.stays then
    size_or_drop(keys.stays, redis.pcall('HLEN', keys.stays))
    size_or_drop(keys.sessions, redis.pcall('ZCARD', keys.sessions))
  end
  return {
    members = size_or_drop(keys.members, redis.pcall('SCARD', keys.members)),
    fans = keys.fans and size_or_drop(keys.fans, redis.pcall('SCARD', keys.fans)) or 0,
    claimed = size_or_drop(keys.who, redis.pcall('HLEN', keys.who)),
    entries = size_or_drop(keys.gateways, redis.pcall('HLEN', keys.gateways)),
  }
end

-- Tells whether the public sets of a slice have other sizes than the claims say. They have no guests.
local function differs(fence, sizes)
  return sizes.members ~= sizes.claimed - fence.guests or sizes.fans ~= fence.fans
end

-- Reads what a gateway knows of a slice in this epoch, in the arguments from `first` on: its version, or 0, how many
-- members came and left by then, and how many of those who were there were fans and guests.
local function known_from(first)
  return {
    version = tonumber(ARGV[first]), joins = tonumber(ARGV[first + 1]), leaves = tonumber(ARGV[first + 2]),
    fans = tonumber(ARGV[first + 3]), guests = tonumber(ARGV[first + 4]),
  }
end

-- Forgets all claims and entries, and begins a rebuild, in which the gateways say again whom they hold. The public sets
-- stay, and so do members who came and left by the version that the caller knows, and the figures that are shown.
local function forget(fence, keys, known)
  local shown = known.version > fence.version and known or fence.rebuild or fence
  local rebuild = { claimed = 0, since = clock(), fans = shown.fans, guests = shown.guests }
  redis.call('UNLINK', keys.who, keys.gateways)
  fence.joins, fence.leaves = math.max(fence.joins, known.joins), math.max(fence.leaves, known.leaves)
  fence.fans, fence.guests, fence.entries, fence.last_token = 0, 0, 0, 0
  -- The next version is newer than every version that gateways know, even if the clock is behind.
  fence.version = math.max(fence.version, known.version)
  move_on(fence)
  fence.incarnation = fence.version
  fence.rebuild = rebuild
end

-- Tells whether every gateway with an entry has said all that it holds.
local function all_are_complete(gateways)
  local entries = redis.call('HGETALL', gateways)
  for i = 2, #entries, 2 do
    if string.find(entries[i], '%+$') or string.find(entries[i], ':dead$') then
      return false
    end
  end
  return true
end

-- Ends a rebuild that has lasted 5 s if every entry is complete: members on whom there is no claim by then have left.
-- If somebody else wrote during the rebuild, it begins again.
local function end_rebuild(fence, keys, claimed, known)
  local rebuild, now = fence.rebuild, clock()
  if now < rebuild.since then
    -- The clock went back.
    rebuild.since, fence.has_changed = now, true
  end
  if now - rebuild.since < 5000 or not all_are_complete(keys.gateways) then
    return
  end
  if rebuild.claimed ~= claimed then
    forget(fence, keys, known)
    return
  end
  local lost = fence.joins - fence.leaves - claimed
  if lost > 0 then
    fence.leaves = fence.leaves + lost
  else
    fence.joins = fence.joins - lost
  end
  fence.rebuild = nil
  move_on(fence)
end

-- Guards a slice with an open fence, before a script changes it: deletes keys of the wrong type, ends a rebuild, and
-- forgets all claims if the slice is older than the caller knows, or if somebody else wrote the claims or the entries.
-- `wrong` is the incarnation in which the caller found that, or nil. During a rebuild the function only notes it, so
-- that a slice forgets once in 5 s at most.
local function guard(fence, keys, known, wrong)
  local sizes, rebuild = read_sizes(keys), fence.rebuild
  local claimed = rebuild and rebuild.claimed or fence.joins - fence.leaves
  if known.version > fence.version or known.joins > fence.joins or known.leaves > fence.leaves then
    forget(fence, keys, known)
  elseif wrong == fence.incarnation or sizes.claimed ~= claimed or sizes.entries ~= fence.entries
      or fence.fans + fence.guests > sizes.claimed then
    if not rebuild then
      forget(fence, keys, known)
    elseif rebuild.claimed >= 0 then
      rebuild.claimed, fence.has_changed = -1, true
    end
  end
  if rebuild and rebuild == fence.rebuild then
    end_rebuild(fence, keys, sizes.claimed, known)
  end
end

-- Returns the size of a slice as scripts answer it, SIZE in their heads: members, fans, guests, how many left,
-- version, incarnation, 1 in a rebuild, and 1 if the public sets have other sizes than the claims say.
local function size_of(fence, keys)
  local shown = fence.rebuild or fence
  return fence.joins - fence.leaves, shown.fans, shown.guests, fence.leaves, fence.version, fence.incarnation,
    fence.rebuild and 1 or 0, differs(fence, read_sizes(keys)) and 1 or 0
end
