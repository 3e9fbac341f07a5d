-- Stores how many viewers a gateway has in an open live, and publishes it on the live's channel.
-- KEYS  1 record  2 viewers
-- ARGV  1 epoch  2 gateway  3 viewers  4 number of the announcement  5 the latest time, ms, for a gateway's first one
--       6 lifetime, s  7 channel  8 message  9 viewers who are away
--       10 viewers who are moving to another gateway
-- Returns  {'announced'} | {'late', now in ms} | {'not_open'}
local state, epoch = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'not_open' }
end
local last = string.match(redis.call('HGET', KEYS[2], ARGV[2]) or '', '^%d+:(%d+)')
if not last then
  local now = clock()
  if now > tonumber(ARGV[5]) then
    return { 'late', whole(now) }
  end
end
if not last or tonumber(last) < tonumber(ARGV[4]) then
  -- This write comes first: a full Redis accepts it (see prelude.lua).
  redis.call('HDEL', KEYS[2], '')
  local value = ARGV[3] .. ':' .. ARGV[4]
  if ARGV[9] ~= '0' or ARGV[10] ~= '0' then
    value = value .. ':' .. ARGV[9] .. ':' .. ARGV[10]
  end
  redis.call('HSET', KEYS[2], ARGV[2], value)
  redis.call('EXPIRE', KEYS[2], ARGV[6])
end
return publish(ARGV[7], ARGV[8], { 'announced' })
