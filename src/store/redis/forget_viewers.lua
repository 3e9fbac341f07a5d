-- Takes a gateway's word on its viewers back, unless it has spoken since: it is said to have none, so that an earlier
-- word which comes late is told from a new one. Where it never spoke, there is nothing to take back.
-- KEYS  1 viewers
-- ARGV  1 gateway  2 number of its last word
-- Says  1
local number = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^%d+:%d+:(%d+)%+?$')
if number and tonumber(number) <= tonumber(ARGV[2]) then
  redis.call('HSET', KEYS[1], ARGV[1], '0:' .. whole(clock()) .. ':' .. ARGV[2])
end
return 1
