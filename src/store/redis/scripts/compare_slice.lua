-- Compares the sizes of a slice with the scripts' own counts. Begins a doubt if they differ, or if Redis lost writes to
-- the slice.
-- KEYS  1 members  2 fence  3 fans, of a live
-- ARGV  1 epoch  2 the newest version of the slice in this epoch that the gateway knows, or 0
--       3 how many members came by then  4 how many left  5 how many fans were there
-- Returns  {members less the scripts' count, fans less the scripts' count, ms until the doubt may end,
--          1 if the doubt began now, SIZE…}, or nothing if the slice does not belong to this epoch, or the epoch is
--          closed
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
