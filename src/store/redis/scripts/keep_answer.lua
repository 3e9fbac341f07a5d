-- Keeps an answer in the place of its claim, unless another answer is there.
-- KEYS  1 the answer
-- ARGV  1 the claim  2 the answer  3 lifetime, ms
-- Returns  the answer that is kept
local there = redis.call('GET', KEYS[1])
if there and there ~= ARGV[1] then
  return there
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return ARGV[2]
