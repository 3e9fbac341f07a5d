-- Shared by every script; put before its text. Nothing here touches a key until it is called.

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

-- The fence as ('open' | 'closed' | nil, epoch).
local function read_fence(key)
  local value = redis.call('GET', key)
  if not value then
    return nil, 0
  end
  local phase, epoch = string.match(value, '^(%a+):(%d+)$')
  if phase ~= 'open' and phase ~= 'closed' then
    nonsense('fence')
  end
  return phase, tonumber(epoch)
end

-- A gateway's entry as (time of the last refresh, number of the last applied call, whether it stands under the gateway's
-- own lease), or nil.
local function read_entry(value)
  if not value then
    return nil
  end
  local refreshed, number, covered = string.match(value, '^(%d+):(%d+)(%+?)$')
  if not refreshed then
    nonsense('gateway entry')
  end
  return tonumber(refreshed), tonumber(number), covered == '+'
end

-- A gateway's own lease as (when it was renewed, since when it was never without), or nil; what another program wrote is
-- none.
local function read_own_lease(leases, gateway)
  local value = redis.pcall('HGET', leases, gateway)
  local renewed, since = string.match(type(value) == 'string' and value or '', '^(%d+):(%d+)$')
  return tonumber(renewed), since
end

-- For how many ms a gateway has been quiet that said something at `at`. What is covered counts as said when the gateway's
-- own lease was renewed, for `most` ms at most. In a cluster there are no such leases.
local function quiet_for(leases, gateway, at, covered, most, now)
  local quiet = now - at
  local renewed = leases and covered and quiet < most and read_own_lease(leases, gateway)
  return renewed and math.min(quiet, now - renewed) or quiet
end

-- The value of a field in a flat list of fields, or nil.
local function field(all, name)
  for i = 1, #all, 2 do
    if all[i] == name then
      return all[i + 1]
    end
  end
  return nil
end

-- For so many leases an entry stands under its gateway's own.
local COVERED_LEASES = 20

-- Of all entries, up to 16 gateways but `me` that have been quiet for `lease` ms or longer, each followed by for how long.
local function silent(all, me, lease, leases, now)
  local found = {}
  for i = 1, #all, 2 do
    local quiet
    if all[i] ~= me then
      local refreshed, _, covered = read_entry(all[i + 1])
      quiet = quiet_for(leases, all[i], refreshed, covered, lease * COVERED_LEASES, now)
    end
    if quiet and quiet >= lease then
      found[#found + 1] = all[i]
      found[#found + 1] = whole(math.max(0, quiet))
      if #found == 32 then
        break
      end
    end
  end
  return found
end

-- Those among the members whom no gateway holds; a gateway is asked only for those that no earlier one holds.
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

-- Takes members out of the union whom no gateway holds. `gone` are at most 1,000.
local function drop_unheld(slice, gateways, prefix, gone)
  gone = unheld(gateways, prefix, gone)
  if #gone > 0 then
    redis.call('SREM', slice, unpack(gone))
  end
end

-- Whether any gateway holds somebody.
local function holds_any(gateways, prefix)
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    if redis.call('EXISTS', prefix .. gateway) == 1 then
      return true
    end
  end
  return false
end

-- Forgets all that a slice holds, whatever its size; the memory is given back in the background.
local function wipe(slice, gateways, prefix)
  local keys = { slice, gateways }
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    keys[#keys + 1] = prefix .. gateway
  end
  redis.call('UNLINK', unpack(keys))
end

-- A record as the flat list of its fields, behind a word.
local function answer(word, key)
  local fields = redis.call('HGETALL', key)
  table.insert(fields, 1, word)
  return fields
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

-- Gives the next number to what happened to a user, in the place of `before`; answers it. The oldest is forgotten when
-- there are too many.
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
