-- Gives up a streamer's claim of an open live, unless the live was claimed again since.
-- KEYS  1 the streamer's open lives
-- ARGV  1 live  2 the latest time of a claim that is given up, Unix ms
-- Returns  1 if it was given up
local claimed = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not claimed or tonumber(claimed) > tonumber(ARGV[2]) then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
