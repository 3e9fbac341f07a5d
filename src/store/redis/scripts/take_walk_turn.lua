-- Takes or keeps the turn to walk.
-- KEYS  1 turn
-- ARGV  1 gateway  2 length of the turn, ms  3 the gateway that may hold the turn until now: the same, or a dead one
-- Returns  1 if the gateway has the turn
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and holder ~= ARGV[3] then
  return 0
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
