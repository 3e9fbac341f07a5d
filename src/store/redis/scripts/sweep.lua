-- Removes a number of a buried gateway's members, and its entry when none is left.
-- KEYS  1 slice  2 the gateway's held set  3 gateways  4 fence
--       5 since when members are there, if the set keeps it; last seen, if they are the users of the platform
-- ARGV  1 gateway  2 the most members  3 prefix of held sets  4 prefix of stays, or empty
--       5 when the gateway was there last, ms  6 text | u32 of the users of the platform, otherwise empty
-- Returns  {released, 1 when nothing is left to sweep, members, how many left, version, 1 while the slice is in doubt}
-- What cannot be read fails before anything is written.
local fence, size = read_fence(KEYS[4]), redis.call('SCARD', KEYS[1])
local gone = redis.call('SPOP', KEYS[2], ARGV[2])
local done = redis.call('EXISTS', KEYS[2]) == 0
if done then
  redis.call('HDEL', KEYS[3], ARGV[1])
end
if #gone > 0 then
  local stays = ARGV[4] ~= '' and ARGV[4] .. whole(fence.epoch)
  local since, seen = since_or_seen(KEYS[5], ARGV[6])
  local ended = on_end(stays, seen, ARGV[6], function() return tonumber(ARGV[5]) end)
  local left = drop_unheld(KEYS[1], KEYS[3], ARGV[3], since, gone, ended)
  -- Without an open fence the keys have expired, and nobody asks for the size.
  if fence.phase == 'open' then
    compare_size(fence, size)
    count_change(fence, size, 0, left)
    move_on(KEYS[4], fence)
  end
end
return { #gone, done and 1 or 0, size_of(fence) }
