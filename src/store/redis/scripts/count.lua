-- Writes the figures of an open live into its record, and raises its peaks, unless that was done a moment ago. In the
-- record the figures are the newest point of the history; those that an earlier bucket ended with are appended to the
-- history first.
-- KEYS  1 record  2 history of the epoch
-- ARGV  1 epoch  2 viewers  3 fans  4 least time between two writes, ms  5 how many came and left  6 most gateways
--       7 length of a bucket, ms  8 about the most points  9 lifetime of the history, s
--       10 peak viewers  11 peak fans
-- Returns  {'counted'} | {'same'} | {'early', ms until it may be written} | {'not_open'}
local state, epoch, viewers, fans, at, known, watched, peak_viewers, peak_fans = unpack(redis.call('HMGET', KEYS[1],
  'state', 'epoch', 'viewers', 'fans', 'counted_at', 'arrivals', 'watched_ms', 'peak_viewers', 'peak_fans'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'not_open' }
end
known = stored_arrivals(KEYS[1], known)
local arrivals, news = merge_arrivals(known, ARGV[5], ARGV[6])
local higher = tonumber(ARGV[10]) > (tonumber(peak_viewers or '') or 0)
  or tonumber(ARGV[11]) > (tonumber(peak_fans or '') or 0)
if (viewers or '0') == ARGV[2] and (fans or '0') == ARGV[3] and not news and not higher then
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
at = tonumber(at or '')
if at and at - at % tonumber(ARGV[7]) < now - now % tonumber(ARGV[7]) then
  append_point(now, KEYS[2], at, viewers, fans, known, unpack(ARGV, 7, 9))
end
redis.call('HSET', KEYS[1], 'viewers', ARGV[2], 'fans', ARGV[3], 'counted_at', whole(now),
  'watched_ms', watched_until(now, watched, viewers, at),
  'peak_viewers', whole(math.max(tonumber(peak_viewers) or 0, tonumber(ARGV[10]))),
  'peak_fans', whole(math.max(tonumber(peak_fans) or 0, tonumber(ARGV[11]))))
if news then
  store_arrivals(KEYS[1], arrivals, known)
end
return { 'counted' }
