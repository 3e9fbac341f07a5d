-- Begins and ends the sessions of users in a live.

-- Reads a user's latest session, which the hash of stays has as '<number> <before> <id> <joined> <left>'. Returns nil
-- if there is none. `left` is nil while the user is here.
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

-- Returns the longest break, in ms, after which a user with so many sessions goes on with the last one: see
-- `Stays::enter`.
local function bridged(number)
  return number < 64 and 0 or number < 256 and 60000 or math.huge
end

-- Begins sessions of users who join and were not here. The join may be the first over all gateways, or another one.
-- `at` tells since when a user is here. A user who came back before the last session ended was never away, and goes on
-- with that session: calls of two gateways may arrive in any order. A user with many sessions also goes on with the
-- last one after a short break.
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

-- Ends the sessions of users who leave the last gateway. `at` tells when a user was here last.
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
