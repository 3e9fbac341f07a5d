-- Takes or keeps a turn.
-- KEYS  1 turn
-- ARGV  1 gateway  2 length of the turn, ms  3 who may hold it until now: the gateway, or one that is dead
-- Returns  1 if the gateway has the turn
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then
  return 0
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
