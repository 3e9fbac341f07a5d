-- Takes out up to a batch of a gateway's members, if its lease has run out; drops its entry when none is left.
-- KEYS  1 slice  2 the gateway's held set  3 gateways  [4 gateways' own leases]
-- ARGV  1 gateway  2 lease, ms  3 batch  4 prefix of held sets
-- Says  {released, 1 when nothing is left to sweep, card, now in µs}
local now, micros = clock()
local lease = tonumber(ARGV[2])
local refreshed, _, covered = read_entry(redis.call('HGET', KEYS[3], ARGV[1]))
if refreshed and quiet_for(KEYS[4], ARGV[1], refreshed, covered, lease * COVERED_LEASES, now) < lease then
  return { 0, 1, redis.call('SCARD', KEYS[1]), whole(micros) }
end
local gone = redis.call('SPOP', KEYS[2], ARGV[3])
drop_unheld(KEYS[1], KEYS[3], ARGV[4], gone)
local done = 0
if redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
  done = 1
end
return { #gone, done, redis.call('SCARD', KEYS[1]), whole(micros) }
