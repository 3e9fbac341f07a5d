-- For how long no gateway has heard the streamer of an open live.
-- KEYS  1 record
-- Says  ms, or -1 if the live is not open
local state, seen = unpack(redis.call('HMGET', KEYS[1], 'state', 'streamer_seen'))
if state ~= 'open' then
  return '-1'
end
local now = clock()
return whole(math.max(0, now - (tonumber(seen) or now)))
