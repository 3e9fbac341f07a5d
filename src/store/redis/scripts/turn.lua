-- Takes a turn, or keeps it.
-- KEYS  1 turn
-- ARGV  1 who  2 for how long, ms
-- Says  1 if it is theirs
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then
  return 0
end
-- Before anything that needs memory.
redis.call('DEL', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
