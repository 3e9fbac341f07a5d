-- Ends the doubt about a slice: what it holds now is what it should hold. Members of whom nobody counted that they came
-- count as come, and missing ones as left.
-- KEYS  1 slice  2 fence
-- ARGV  1 epoch  2 card less the count of the scripts, as it was before the slice was compared with what gateways hold
-- Returns  {'settled', members, how many left, version, 0} | {'early'}: gateways may still have to write again whom they
--           hold | {'changed'}: another program wrote meanwhile | {'over'}: the slice does not belong to this epoch
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
local difference = redis.call('SCARD', KEYS[1]) - counted(fence)
if difference ~= tonumber(ARGV[2]) then
  return { 'changed' }
end
fence.joins, fence.leaves = fence.joins + math.max(0, difference), fence.leaves + math.max(0, -difference)
fence.not_before = nil
-- This write comes first: it needs no memory, so a full Redis accepts the next one (see prelude.lua).
redis.call('SREM', KEYS[1], '')
move_on(KEYS[2], fence)
return { 'settled', size_of(fence) }
