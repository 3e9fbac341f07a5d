-- Compares the size of a slice with the size that the scripts counted, and begins a doubt if they differ, or if the store
-- lost writes to the slice.
-- KEYS  1 slice  2 fence
-- ARGV  1 epoch  2 the newest version that the gateway knows of the slice in this epoch, or 0  3 how many came by then
--       4 how many left
-- Returns  {card less the count of the scripts, ms until the doubt may end, 1 if it began now, members, how many left,
--           version, 1 while the slice is in doubt}, or nothing if the slice does not belong to this epoch or the epoch
--           is closed
local fence = read_fence(KEYS[2])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[1]) then
  return {}
end
local card, before = redis.call('SCARD', KEYS[1]), fence.not_before
compare_size(fence, card, { version = tonumber(ARGV[2]), joins = tonumber(ARGV[3]), leaves = tonumber(ARGV[4]) })
if fence.not_before ~= before then
  -- This write comes first: it needs no memory, so a full Redis accepts the next one (see prelude.lua).
  redis.call('SREM', KEYS[1], '')
  move_on(KEYS[2], fence)
end
local wait = math.max(0, (fence.not_before or 0) - clock())
local began = not before and fence.not_before and 1 or 0
return { whole(card - counted(fence)), whole(wait), began, size_of(fence) }
