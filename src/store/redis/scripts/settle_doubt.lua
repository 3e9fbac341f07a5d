-- Ends the doubt about a slice: the members that it has now are those that it should have. Members whom no script
-- counted count as come, and missing members count as left.
-- KEYS  1 members  2 fence  3 fans, of a live
-- ARGV  1 epoch  2 members less the scripts' count  3 fans less the scripts' count, both as they were before the caller
--       compared the slice with what gateways hold
-- Returns  {'settled', SIZE…} | {'early'}: gateways may still have to write their members again
--          | {'changed'}: another program wrote meanwhile | {'over'}: the slice does not belong to this epoch
local fence = read_fence(KEYS[2])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[1]) then
  return { 'over' }
end
if not fence.not_before then
  return { 'settled', size_of(fence) }
end
if clock() < fence.not_before then
  return { 'early' }
end
local size = sizes(KEYS[1], KEYS[3])
local surplus = size.members - counted(fence)
if surplus ~= tonumber(ARGV[2]) or size.fans - fence.fans ~= tonumber(ARGV[3]) then
  return { 'changed' }
end
fence.joins, fence.leaves = fence.joins + math.max(0, surplus), fence.leaves + math.max(0, -surplus)
fence.fans = size.fans
fence.not_before = nil
-- This write comes first: it needs no memory, so a full Redis accepts the next one (see basics.lua).
redis.call('SREM', KEYS[1], '')
move_on(KEYS[2], fence)
return { 'settled', size_of(fence) }
