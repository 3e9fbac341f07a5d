-- Closes a slice for an epoch, and deletes everything that the slice held. Leaves a slice of a newer epoch alone. The
-- closed fence keeps the totals, so a repeated close answers the same.
-- KEYS  1 members  2 claims  3 gateways  4 fence
--       of a live:  5 fans  6 different viewers  7 different fans  8 confirmed viewers
-- ARGV  1 epoch  2 lifetime of the closed fence, s
-- Returns  {how many came, how many left, different viewers, different fans}; zeros if the slice belongs to another
--          epoch

-- Counts different users; 0 if another program wrote the key.
local function count_different(key)
  local count = key and redis.pcall('PFCOUNT', key)
  return type(count) == 'number' and count or 0
end

local fence, epoch = read_fence(KEYS[4]), tonumber(ARGV[1])
if fence.epoch > epoch then
  return { 0, 0, 0, 0 }
end
local joins, leaves, viewers, fans = 0, 0, 0, 0
if fence.epoch == epoch then
  joins, leaves = fence.joins, fence.leaves
  viewers = fence.unique_viewers or count_different(KEYS[6])
  fans = fence.unique_fans or count_different(KEYS[7])
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua). The fence follows in
-- the same step, so no other call comes in between.
redis.call('UNLINK', unpack(KEYS, 1, 3))
if KEYS[5] then
  redis.call('UNLINK', unpack(KEYS, 5, 8))
end
local totals = whole(joins) .. '-' .. whole(leaves) .. ':' .. whole(viewers) .. ':' .. whole(fans)
redis.call('SET', KEYS[4], 'closed:' .. ARGV[1] .. ':' .. totals, 'EX', ARGV[2])
return { joins, leaves, viewers, fans }
