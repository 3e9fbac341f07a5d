-- Reads and writes the fence of a slice: its epoch, its version, its counts, and the doubt about them.

-- Reads the fence of a slice. An open fence is 'open:<epoch>:<version>:<joins>-<leaves>:<fans>', with ':<not before>'
-- behind it while the slice is in doubt. `not_before` is when the doubt may end, ms. A closed fence is
-- 'closed:<epoch>:<joins>-<leaves>:<different viewers>:<different fans>'. Without a fence `phase` is nil.
--
-- The scripts count the members who came to the slice and those who left it, over all gateways. So the slice has as
-- many members as came and did not leave. The scripts also count the fans among the members.
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

-- Returns the next version. Versions follow the clock, so that they keep growing after Redis lost a slice's data. They
-- also grow if the clock goes back.
local function next_version(version)
  local _, micros = clock()
  return whole(math.max(version + 1, micros))
end

-- Returns how many members a slice has by the scripts' own count.
local function counted(fence)
  return fence.joins - fence.leaves
end

-- Reads how many members a slice has, and how many of them are fans. A set without fans has no key for them.
local function sizes(members, fans)
  return { members = redis.call('SCARD', members), fans = fans and redis.call('SCARD', fans) or 0 }
end

-- Reads what a gateway knows of a slice, in the arguments from `first` on: its version in this epoch, or 0, and by then
-- how many members came, how many left, and how many fans were there.
local function known_from(first)
  return {
    version = tonumber(ARGV[first]), joins = tonumber(ARGV[first + 1]), leaves = tonumber(ARGV[first + 2]),
    fans = tonumber(ARGV[first + 3]),
  }
end

-- Begins a doubt if a slice with this open fence has other sizes than the scripts counted: another program wrote to it.
-- A version that is older than the one `known` to a gateway means that the store lost writes. Every gateway then has to
-- notice the loss and write its members again, which takes up to 10 s. Members who came and left by the known version
-- stay counted.
local function compare_sizes(fence, size, known)
  if known and known.version > fence.version then
    fence.not_before = clock() + 10000
    -- The next version is newer than every version that gateways know, even if the clock is behind.
    fence.version = known.version
    fence.joins, fence.leaves = math.max(fence.joins, known.joins), math.max(fence.leaves, known.leaves)
    fence.fans = known.fans
  elseif counted(fence) ~= size.members or fence.fans ~= size.fans then
    fence.not_before = fence.not_before or 0
  end
  if fence.not_before then
    -- The clock may have gone back since the doubt began.
    fence.not_before = math.min(fence.not_before, clock() + 10000)
  end
end

-- Counts the members who came to a slice and those who left it. `size` is the size of the slice before. While members
-- are missing, the function takes members who come for the missing ones, because the scripts counted these before. It
-- treats fans the same way.
local function count_change(fence, size, came, left)
  local missing = math.max(0, counted(fence) - size.members)
  local missing_fans = math.max(0, fence.fans - size.fans)
  fence.joins = fence.joins + math.max(0, came.members - missing)
  -- Another program may have added a user who came to a gateway later. No script counted that join.
  fence.leaves = math.min(fence.joins, fence.leaves + left.members)
  fence.fans = math.max(0, fence.fans + math.max(0, came.fans - missing_fans) - left.fans)
end

-- Writes an open fence with the next version. Without `lifetime` the fence keeps the lifetime that it has.
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

-- Returns the size of a slice as scripts answer it, SIZE in their heads: members, fans, how many left, version, and 1
-- while the slice is in doubt.
local function size_of(fence)
  if fence.phase ~= 'open' then
    return '0', '0', '0', whole(fence.version), 0
  end
  return whole(counted(fence)), whole(fence.fans), whole(fence.leaves), whole(fence.version), fence.not_before and 1 or 0
end
