-- Changes an open live, and publishes that on the live's channel.
-- KEYS  1 record
-- ARGV  1 epoch  2 channel  3 message  4… a field and its value for each change: 'info', 'title' or
--       'streamer_timeout_s'; an empty value removes the field
-- Returns  {'changed', version} | {'over'} | {'absent'}
local state, epoch, last = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'version'))
if not state and redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'absent' }
end
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'over' }
end
-- The version is at least the time, so no version is used again, whatever data Redis lost.
local version = whole(math.max((tonumber(last or '0') or 0) + 1, (clock())))
local written = {}
for i = 4, #ARGV, 2 do
  -- This write comes first: a full Redis accepts it (see basics.lua).
  redis.call('HDEL', KEYS[1], ARGV[i])
  written[#written + 1] = ARGV[i]
  written[#written + 1] = ARGV[i + 1]
  if ARGV[i] == 'info' then
    written[#written + 1] = 'info_version'
    written[#written + 1] = version
  end
end
written[#written + 1] = 'version'
written[#written + 1] = version
put_given(KEYS[1], written)
return publish(ARGV[2], ARGV[3], { 'changed', version })
