-- Gives up a gateway's turn to send events.
-- KEYS  1 turn
-- ARGV  1 gateway
-- Returns  1
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
return 1
