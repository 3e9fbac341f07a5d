-- Closes a slice for an epoch, and deletes everything that the slice held. Leaves a slice of a newer epoch alone. The
-- closed fence keeps the totals, so a repeated close answers the same.
-- KEYS  1 members  2 gateways  3 fence  4 notes on members, if the set has some
--       of a live:  5 fans  6 different viewers  7 different fans
-- ARGV  1 epoch  2 lifetime of the closed fence, s  3 prefix of held sets  4 prefix of held fans
-- Returns  {how many came, how many left, different viewers, different fans}; zeros if the slice belongs to another
--          epoch
local fence = read_fence(KEYS[3])
local epoch = tonumber(ARGV[1])
if fence.epoch > epoch then
  return { '0', '0', '0', '0' }
end
local joins, leaves, viewers, fans = 0, 0, 0, 0
if fence.epoch == epoch then
  joins, leaves = fence.joins, fence.leaves
  viewers = fence.unique_viewers or KEYS[6] and redis.call('PFCOUNT', KEYS[6]) or 0
  fans = fence.unique_fans or KEYS[7] and redis.call('PFCOUNT', KEYS[7]) or 0
end
require_here(KEYS[2], { ARGV[3], ARGV[4] })
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua). The fence follows in
-- the same step, so no other call comes in between.
wipe({ KEYS[1], unpack(KEYS, 4, 7) }, KEYS[2], { ARGV[3], ARGV[4] })
local totals = whole(joins) .. '-' .. whole(leaves) .. ':' .. whole(viewers) .. ':' .. whole(fans)
redis.call('SET', KEYS[3], 'closed:' .. ARGV[1] .. ':' .. totals, 'EX', ARGV[2])
return { whole(joins), whole(leaves), whole(viewers), whole(fans) }
