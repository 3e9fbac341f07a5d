-- Renews a gateway's own lease, or begins one where there is none, or it ran out, or it is older than it was left.
-- KEYS  1 gateways' own leases
-- ARGV  1 gateway  2 lease, ms  3 when it was left, or 0  4 lifetime, s
-- Says  {now, since when it was never without}
local now = clock()
local before, since = read_own_lease(KEYS[1], ARGV[1])
if not before or now - before >= tonumber(ARGV[2]) or before < tonumber(ARGV[3]) then
  since = whole(now)
  -- Leases begin rarely: a time to forget the gateways of old.
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local renewed = tonumber(string.match(all[i + 1], '^(%d+):%d+$') or '')
    if not renewed or now - renewed > ARGV[4] * 1000 then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], whole(now) .. ':' .. since)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return { whole(now), since }
