-- Forgets the viewers of an epoch and refuses what is said of them late; a newer epoch is left alone.
-- KEYS  1 viewers  2 fence
-- ARGV  1 epoch  2 lifetime of the closed fence, s
-- Says  1 if they are closed, 0 if they belong to a newer epoch
local _, fenced = read_fence(KEYS[2])
if fenced > tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[2], 'closed:' .. ARGV[1], 'EX', ARGV[2])
redis.call('UNLINK', KEYS[1])
return 1
