-- Notes attempts to send events to a webhook, and how it stands after them.
-- KEYS  1 attempts  2 status
-- ARGV  1 how many attempts to keep  2 lifetime, s  3 how many names and values of the status follow
--       4 names and values of the status, then each attempt
-- Returns  1
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[1])
local first = 4 + tonumber(ARGV[3])
for i = first, #ARGV do
  redis.call('XADD', KEYS[1], '*', 'delivery', ARGV[i])
end
redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[1])
redis.call('HSET', KEYS[2], unpack(ARGV, 4, first - 1))
redis.call('EXPIRE', KEYS[1], ARGV[2])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return 1
