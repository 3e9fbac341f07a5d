-- Compares the sizes of a slice with those that the scripts counted, and begins a doubt if they differ, or if the store
-- lost writes to the slice.
-- KEYS  1 members  2 fence  3 fans, of a live
-- ARGV  1 epoch  2 the newest version that the gateway knows of the slice in this epoch, or 0  3 how many came by then
--       4 how many left  5 how many fans were there
-- Returns  {members less the count of the scripts, fans less their count, ms until the doubt may end, 1 if it began now,
--          SIZE…}, or nothing if the slice does not belong to this epoch or the epoch is closed
local fence = read_fence(KEYS[2])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[1]) then
  return {}
end
local size, before = sizes(KEYS[1], KEYS[3]), fence.not_before
compare_sizes(fence, size, known_from(2))
if fence.not_before ~= before then
  -- This write comes first: it needs no memory, so a full Redis accepts the next one (see basics.lua).
  redis.call('SREM', KEYS[1], '')
  move_on(KEYS[2], fence)
end
local wait = math.max(0, (fence.not_before or 0) - clock())
local began = not before and fence.not_before and 1 or 0
return { whole(size.members - counted(fence)), whole(size.fans - fence.fans), whole(wait), began, size_of(fence) }
