-- Writes the figures of an open live into its record, unless they were written a moment ago.
-- KEYS  1 record
-- ARGV  1 epoch  2 viewers  3 fans  4 least time between two writes, ms
-- Returns  {'counted'} | {'same'} | {'early', ms until it may be written} | {'not_open'}
local state, epoch, viewers, fans, at = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'viewers', 'fans',
  'counted_at'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'not_open' }
end
if (viewers or '0') == ARGV[2] and (fans or '0') == ARGV[3] then
  return { 'same' }
end
local now = clock()
local left = (tonumber(at or '') or 0) + tonumber(ARGV[4]) - now
-- More than that is left only if the clock went back.
if left > 0 and left <= tonumber(ARGV[4]) then
  return { 'early', whole(left) }
end
-- This write comes first: a full Redis accepts it (see prelude.lua).
redis.call('HDEL', KEYS[1], '')
redis.call('HSET', KEYS[1], 'viewers', ARGV[2], 'fans', ARGV[3], 'counted_at', whole(now))
return { 'counted' }
