-- Takes a live off the list, unless it was listed later than the epoch that is over.
-- KEYS  1 list
-- ARGV  1 live  2 the latest time of listing that is taken off
local listed = redis.call('ZSCORE', KEYS[1], ARGV[1])
if listed and tonumber(listed) <= tonumber(ARGV[2]) then
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return 1
