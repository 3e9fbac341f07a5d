-- Renews a gateway's own lease, or begins one where there is none or it ran out.
-- KEYS  1 gateways' own leases
-- ARGV  1 gateway  2 lease, ms  3 lifetime, s
-- Says  {now, since when it was never without, when it was renewed before or 0}
local now = clock()
local before, since = read_own_lease(KEYS[1], ARGV[1])
if not before or now - before >= tonumber(ARGV[2]) then
  since = whole(now)
  -- Leases begin rarely: a time to forget the gateways of old.
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local renewed = tonumber(string.match(all[i + 1], '^(%d+):%d+$') or '')
    if not renewed or now - renewed > ARGV[3] * 1000 then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
end
redis.call('HSET', KEYS[1], ARGV[1], whole(now) .. ':' .. since)
redis.call('EXPIRE', KEYS[1], ARGV[3])
return { whole(now), since, whole(before or 0) }
