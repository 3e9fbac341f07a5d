-- Takes a gateway's word on its viewers back, unless it has spoken since.
-- KEYS  1 viewers
-- ARGV  1 gateway  2 number of its last word
-- Says  1
local number = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^%d+:%d+:(%d+)$')
if not number or tonumber(number) <= tonumber(ARGV[2]) then
  redis.call('HDEL', KEYS[1], ARGV[1])
end
return 1
