-- Writes the information about an open live, and publishes the change on the live's channel.
-- KEYS  1 record
-- ARGV  1 epoch  2 JSON, or empty to clear it  3 channel  4 message
-- Returns  {'written', version} | {'over'} | {'absent'}
local state, epoch, last = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'info_version'))
if not state and redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'absent' }
end
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'over' }
end
-- The version is at least the time, so no version is used again, whatever data Redis lost.
local version = whole(math.max((tonumber(last or '0') or 0) + 1, (clock())))
redis.call('HDEL', KEYS[1], 'info')
put_given(KEYS[1], { 'info_version', version, 'info', ARGV[2] })
return publish(ARGV[3], ARGV[4], { 'written', version })
