-- Which of many lives somebody has to look at more closely: all but those that are open, of one slice and on a few
-- gateways, with no gateway and no streamer that is silent.
-- KEYS  of each live: record, gateways of its slice; then gateways' own leases
-- ARGV  1 lease, ms  2 silence of a streamer who opened the live, ms  3 for so long, ms, a gateway is looked for whose own
--       lease ran out
-- Says  {place of the live…}
local now = clock()
local lease, patience = tonumber(ARGV[1]), tonumber(ARGV[2])
-- Whether a gateway's own lease has run out, not long ago. Otherwise no gateway is silent, and no entry need be looked at.
local function is_anybody_late()
  local all = redis.pcall('HGETALL', KEYS[#KEYS])
  for i = 2, #all, 2 do
    local renewed = tonumber(string.match(all[i], '^(%d+):%d+$') or '')
    local quiet = renewed and now - renewed or lease
    if quiet >= lease and quiet < lease + tonumber(ARGV[3]) then
      return true
    end
  end
  return all.err ~= nil
end

-- Of so many gateways each, two hundred lives have a thousand.
local MOST_GATEWAYS = 5
local look = is_anybody_late()
local needy = {}
for k = 1, #KEYS - 1, 2 do
  -- What another program garbled must not hide the others.
  local record = redis.pcall('HMGET', KEYS[k], 'state', 'slices', 'opened_by', 'streamer_seen')
  local calm = record[1] == 'open' and record[2] == '1'
    and (record[3] ~= 'streamer' or now - (tonumber(record[4]) or 0) < patience)
  if calm and look then
    local gateways = redis.pcall('HLEN', KEYS[k + 1])
    calm = type(gateways) == 'number' and gateways <= MOST_GATEWAYS
    if calm and gateways > 0 then
      local read, late = pcall(silent, redis.call('HGETALL', KEYS[k + 1]), nil, lease, KEYS[#KEYS], now)
      calm = read and #late == 0
    end
  end
  if not calm then
    needy[#needy + 1] = (k + 1) / 2
  end
end
return needy
