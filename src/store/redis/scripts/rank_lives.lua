-- Ranks lives by their figures. Leaves out lives that are not on the list, because a call may arrive after the close.
-- KEYS  1 list  2 ranks by viewers  3 ranks by fans
-- ARGV  for each live: live, viewers, fans
for i = 1, #ARGV, 3 do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('ZADD', KEYS[2], ARGV[i + 1], ARGV[i])
    redis.call('ZADD', KEYS[3], ARGV[i + 2], ARGV[i])
  end
end
return 1
