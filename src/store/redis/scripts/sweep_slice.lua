-- Sweeps a slice: removes some of a buried gateway's members, and the gateway's entry when none is left.
-- KEYS  1 members  2 the gateway's held set  3 gateways  4 fence
--       5 notes on members, if the set has some
--       of the users of the platform:  6 last seen
--       of a live:  6 fans  7 the gateway's held fans
-- ARGV  1 gateway  2 the most members  3 prefix of held sets  4 prefix of held fans  5 prefix of stays, or empty
--       6 when the gateway was there last, ms  7 text | u32 of the users of the platform, otherwise empty
-- Returns  {released, 1 when nothing is left to sweep, SIZE…}
-- A key that cannot be read makes the script fail before it writes anything.
local fans, seen = fans_or_seen(KEYS[6], ARGV[7])
local fence, size = read_fence(KEYS[4]), sizes(KEYS[1], fans)
require_here(KEYS[3], fans and { ARGV[3], ARGV[4] } or { ARGV[3] })
local gone = redis.call('SPOP', KEYS[2], ARGV[2])
local left = { members = 0, fans = 0 }
if #gone > 0 then
  local stays = ARGV[5] ~= '' and ARGV[5] .. whole(fence.epoch)
  local ended = on_end(stays, seen, ARGV[7], function() return tonumber(ARGV[6]) end)
  if fans then
    left.fans = drop_fans(fans, KEYS[7], KEYS[3], ARGV[4], gone)
  elseif seen then
    drop_words(KEYS[5], ARGV[3], gone)
  end
  left.members = drop_unheld(KEYS[1], KEYS[3], ARGV[3], KEYS[5], gone, ended)
end
local done = redis.call('EXISTS', KEYS[2]) == 0
if done then
  redis.call('HDEL', KEYS[3], ARGV[1])
  if KEYS[7] then
    -- Only another program can have left fans in this set.
    redis.call('UNLINK', KEYS[7])
  end
end
-- Without an open fence the keys have expired, and no caller needs the size.
if #gone > 0 and fence.phase == 'open' then
  compare_sizes(fence, size)
  count_change(fence, size, { members = 0, fans = 0 }, left)
  move_on(KEYS[4], fence)
end
return { #gone, done and 1 or 0, size_of(fence) }
