-- Takes or keeps a turn.
-- KEYS  1 turn
-- ARGV  1 gateway  2 length of the turn, ms
-- Says  1 if the gateway has the turn
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
-- First of all, because it needs no memory.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
