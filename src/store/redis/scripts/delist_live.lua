-- Takes a live off the list and out of the ranks, unless a later epoch has put it on the list again.
-- KEYS  1 list  2 ranks by viewers  3 ranks by fans
-- ARGV  1 live  2 the latest time in the list at which the script takes the live off
local listed = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not listed or tonumber(listed) <= tonumber(ARGV[2]) then
  for _, key in ipairs(KEYS) do
    redis.call('ZREM', key, ARGV[1])
  end
end
return 1
