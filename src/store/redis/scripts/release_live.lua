-- Gives up a streamer's claim of an open live, unless a later call claimed the live again.
-- KEYS  1 the streamer's open lives
-- ARGV  1 live  2 the latest time of a claim that the script gives up, Unix ms
-- Returns  1 if the script gave the claim up
local claimed = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not claimed or tonumber(claimed) > tonumber(ARGV[2]) then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
