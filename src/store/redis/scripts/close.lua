-- Closes a slice for an epoch and forgets all it held; leaves a slice of a newer epoch alone. The closed fence keeps how
-- many came, so that a close that is done again answers the same.
-- KEYS  1 slice  2 gateways  3 fence  4 different users  5 since when members are there, if the set keeps it
-- ARGV  1 epoch  2 lifetime of the closed fence, s  3 prefix of held sets
-- Returns  {how many came, how many left, different users}; zeros if the slice belongs to another epoch
local fence = read_fence(KEYS[3])
local epoch = tonumber(ARGV[1])
if fence.epoch > epoch then
  return { '0', '0', '0' }
end
local joins, leaves, uniques = 0, 0, 0
if fence.epoch == epoch then
  joins, leaves = fence.joins, fence.leaves
  uniques = fence.uniques or redis.call('PFCOUNT', KEYS[4])
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see prelude.lua). The
-- fence follows in the same step, so no other call comes in between.
wipe(KEYS[1], KEYS[2], ARGV[3], { KEYS[4], KEYS[5] })
local totals = whole(joins) .. '-' .. whole(leaves) .. ':' .. whole(uniques)
redis.call('SET', KEYS[3], 'closed:' .. ARGV[1] .. ':' .. totals, 'EX', ARGV[2])
return { whole(joins), whole(leaves), whole(uniques) }
