-- Renews a gateway's lease, buries other gateways, and lists all leases. An absent lease begins anew. A lease that
-- began at another time, or has a smaller count than the gateway knows, comes from a backup: the script buries its
-- gateway. A renewal that arrives a second time, or after a later one, renews nothing.
-- KEYS  1 leases
-- ARGV  1 gateway  2 when its lease began, or empty  3 the count in the last answer  4 the number of this renewal
--       5 where the gateway is not heard: the numbers of channels, with commas  6 how long Redis remembers a burial, ms
--       7 lifetime, s, then for each burial: gateway, the count that stands still, or empty if the gateway has no lease
-- Returns  {'dead'} | {'renewed', began, count, {living gateway, count, where it is not heard…},
--          {dead gateway, last renewal or burial, ms…}}
local me, now = ARGV[1], whole((clock()))
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('HDEL', KEYS[1], '')

-- Reads a lease. Returns when it began, its count, its last renewal and where its gateway is not heard. For a dead
-- gateway, returns 'dead', when it was buried and the last renewal. For a value that a former version of this program
-- wrote, returns nil.
local function read(value)
  local born, renewed, count, unheard = string.match(value or '', '^(%d+):(%d+):(%d+):([%d,]*)$')
  if born then
    return born, tonumber(count), renewed, unheard
  end
  local died, last = string.match(value or '', '^dead:(%d+):?(%d*)$')
  if died then
    return 'dead', tonumber(died), last ~= '' and last or died
  end
end

-- Buries a gateway. `renewed` is the last renewal of its lease, or nil if it had none.
local function bury(gateway, renewed)
  redis.call('HSET', KEYS[1], gateway, 'dead:' .. now .. (renewed and ':' .. renewed or ''))
end

local born, count, renewed = read(redis.call('HGET', KEYS[1], me))
if born == 'dead' then
  return { 'dead' }
end
if born and (born ~= ARGV[2] or count < tonumber(ARGV[3])) then
  bury(me, renewed)
  return { 'dead' }
end
local number = tonumber(ARGV[4])
if not born or count < number then
  born, count = born or now, number
  redis.call('HSET', KEYS[1], me, born .. ':' .. now .. ':' .. whole(count) .. ':' .. ARGV[5])
end
redis.call('EXPIRE', KEYS[1], ARGV[7])
for i = 8, #ARGV, 2 do
  local there = redis.call('HGET', KEYS[1], ARGV[i])
  local began, last, at = read(there)
  if (ARGV[i + 1] == '' and not there) or (began and began ~= 'dead' and last == tonumber(ARGV[i + 1])) then
    bury(ARGV[i], at)
  end
end
local living, dead = {}, {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local began, last, at, unheard = read(all[i + 1])
  if began == 'dead' then
    if now - last > tonumber(ARGV[6]) then
      redis.call('HDEL', KEYS[1], all[i])
    else
      dead[#dead + 1] = all[i]
      dead[#dead + 1] = at
    end
  elseif began then
    living[#living + 1] = all[i]
    living[#living + 1] = whole(last)
    living[#living + 1] = unheard
  end
end
return { 'renewed', born, whole(count), living, dead }
