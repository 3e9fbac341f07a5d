-- Closes a slice for an epoch and forgets all it held; leaves a slice of a newer epoch alone.
-- KEYS  1 slice  2 gateways  3 fence  4 since when members are there, if the set keeps it
-- ARGV  1 epoch  2 lifetime of the closed fence, s  3 prefix of held sets
-- Returns  1 if the slice is closed, 0 if it belongs to a newer epoch
if read_fence(KEYS[3]).epoch > tonumber(ARGV[1]) then
  return 0
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see prelude.lua). The
-- fence follows in the same step, so no other call comes in between.
wipe(KEYS[1], KEYS[2], ARGV[3], KEYS[4])
redis.call('SET', KEYS[3], 'closed:' .. ARGV[1], 'EX', ARGV[2])
return 1
