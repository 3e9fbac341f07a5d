-- Ends the doubt about a slice: what it holds now is what it should hold. Members of whom nobody counted that they came
-- count as come, and missing ones as left.
-- KEYS  1 members  2 fence  3 fans, of a live
-- ARGV  1 epoch  2 members less the count of the scripts  3 fans less their count, both as they were before the slice was
--       compared with what gateways hold
-- Returns  {'settled', SIZE…} | {'early'}: gateways may still have to write again whom they hold
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
