-- Reads a hash of gateways and its fence, for whoever looks into the store from outside.
-- KEYS  1 hash  2 fence  [3 slice, whose hash it is; that of the viewers otherwise]  [gateways' own leases]
-- ARGV  1 name of the last key  2 lease, ms
-- Says  {now, fence or empty, card of the slice or 0, then of each field: name, value, for how many ms it was quiet…}
local now = clock()
local leases = KEYS[#KEYS] == ARGV[1] and ARGV[1]
local slice = KEYS[3] ~= ARGV[1] and KEYS[3]
local said_at = slice and '^(%d+):' or '^%d+:(%d+):'
local reply = { whole(now), redis.call('GET', KEYS[2]) or '', slice and redis.call('SCARD', slice) or 0 }
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local name, value = all[i], all[i + 1]
  local at = tonumber(string.match(value, said_at) or '')
  local covered = string.sub(value, -1) == '+'
  reply[#reply + 1] = name
  reply[#reply + 1] = value
  reply[#reply + 1] = whole(at and math.max(0, quiet_for(leases, name, at, covered, ARGV[2] * COVERED_LEASES, now)) or 0)
end
return reply
