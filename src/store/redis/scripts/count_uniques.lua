-- Counts users among those who came to an open live.
-- KEYS  1 record  2 unique viewers  3 unique fans
-- ARGV  1 epoch  2 lifetime, s  3 number of viewers, then their hashes, then those of fans
-- Returns  1 if they are counted, 0 if the epoch is not open
local state, epoch = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return 0
end
local function count(key, first, last)
  if first <= last then
    redis.call('PFADD', key, unpack(ARGV, first, last))
    redis.call('EXPIRE', key, ARGV[2])
  end
end
count(KEYS[2], 4, 3 + ARGV[3])
count(KEYS[3], 4 + ARGV[3], #ARGV)
return 1
