-- Changes an open live, and publishes that on the live's channel.
-- KEYS  1 record  2 bans
-- ARGV  1 epoch  2 channel  3 message  4… a field and its value for each change: 'info', 'title',
--       'streamer_timeout_s' or 'hosts', with spaces; an empty value removes the field
-- Returns  {'changed', version} | {'banned', the user who was to be a host} | {'over'} | {'absent'}
local state, epoch, last = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'version'))
if not state and redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'absent' }
end
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'over' }
end
local now = clock()
for i = 4, #ARGV, 2 do
  if ARGV[i] == 'hosts' then
    for host in string.gmatch(ARGV[i + 1], '%S+') do
      if tonumber(redis.call('ZSCORE', KEYS[2], host) or '0') > now then
        return { 'banned', host }
      end
    end
  end
end
-- The version is at least the time, so no version is used again, whatever data Redis lost.
local version = whole(math.max((tonumber(last or '0') or 0) + 1, now))
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
