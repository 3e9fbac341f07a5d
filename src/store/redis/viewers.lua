-- A gateway's word on its viewers of a live, or with no gateway only a look at what all said.
-- KEYS  1 viewers  2 fence  [3 gateways' own leases]
-- ARGV  1 epoch  2 gateway, or empty  3 viewers  4 number of the word  5 lifetime, s  6 age at which a field is dropped, ms: two leases
-- Says  {'over'} | {'known', 1 if the epoch begins, then for each field: gateway, viewers, number, age in ms…}
local epoch, me, keep = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[6])
local phase, fenced = read_fence(KEYS[2])
if fenced > epoch or (phase == 'closed' and fenced == epoch) then
  return { 'over' }
end
local begins = not phase or fenced < epoch
local now = clock()

-- A field as (viewers, time, number, whether it stands under the gateway's own lease); nil if another program wrote it.
local function read(value)
  local viewers, at, number, covered = string.match(value or '', '^(%d+):(%d+):(%d+)(%+?)$')
  return viewers, tonumber(at), tonumber(number), covered == '+'
end

-- Keeps the list that was read as the hash is now.
local function set_field(list, name, value)
  for i = 1, #list, 2 do
    if list[i] == name then
      list[i + 1] = value
      return
    end
  end
  list[#list + 1] = name
  list[#list + 1] = value
end

local all = begins and {} or redis.call('HGETALL', KEYS[1])
if me ~= '' then
  if begins then
    redis.call('UNLINK', KEYS[1])
  end
  local _, _, last = read(field(all, me))
  if not last or last < tonumber(ARGV[4]) then
    redis.call('HSET', KEYS[1], me, ARGV[3] .. ':' .. whole(now) .. ':' .. ARGV[4])
    set_field(all, me, ARGV[3] .. ':' .. whole(now) .. ':' .. ARGV[4])
  end
  -- Lifetimes are hours; what is said every few seconds puts them off once a minute.
  if begins or not last or redis.call('TTL', KEYS[1]) < ARGV[5] - 60 then
    redis.call('SET', KEYS[2], 'open:' .. whole(epoch), 'EX', ARGV[5])
    redis.call('EXPIRE', KEYS[1], ARGV[5])
  end
end
local reply = { 'known', begins and 1 or 0 }
if begins and me == '' then
  return reply
end
for i = 1, #all, 2 do
  local viewers, at, number, covered = read(all[i + 1])
  local quiet = viewers and quiet_for(KEYS[3], all[i], at, covered, keep / 2 * COVERED_LEASES, now)
  if not viewers or quiet > keep then
    redis.call('HDEL', KEYS[1], all[i])
  else
    reply[#reply + 1] = all[i]
    reply[#reply + 1] = viewers
    reply[#reply + 1] = whole(number)
    reply[#reply + 1] = whole(math.max(0, quiet))
  end
end
return reply
