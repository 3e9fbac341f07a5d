-- The viewers that each gateway announced in an epoch.
-- KEYS  1 record  2 viewers
-- ARGV  1 epoch
-- Returns  {'open', gateway, value…} | {'not_open'}
local state, epoch = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'not_open' }
end
return answer('open', KEYS[2])
