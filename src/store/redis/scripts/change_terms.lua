-- Changes what may change of an open live, and publishes that on the live's channel.
-- KEYS  1 record
-- ARGV  1 epoch  2 1 to write the title, or empty  3 title, or empty for none
--       4 1 to write the streamer timeout, or empty  5 streamer timeout, s, or empty for the default
--       6 channel  7 message
-- Returns  {'written', version} | {'over'} | {'absent'}
local state, epoch, last = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'info_version'))
if not state and redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'absent' }
end
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'over' }
end
-- One version counts all that back ends write about a live, so that gateways which missed some know that they did.
local version = whole(math.max((tonumber(last or '0') or 0) + 1, (clock())))
local written = { 'info_version', version }
local function write(is_given, field, value)
  if is_given ~= '' then
    redis.call('HDEL', KEYS[1], field)
    written[#written + 1] = field
    written[#written + 1] = value
  end
end
write(ARGV[2], 'title', ARGV[3])
write(ARGV[4], 'streamer_timeout_s', ARGV[5])
put_given(KEYS[1], written)
return publish(ARGV[6], ARGV[7], { 'written', version })
