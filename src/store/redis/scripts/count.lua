-- Writes the figures of an open live into its record, unless they were written a moment ago, and a point of its
-- history.
-- KEYS  1 record  2 history of the epoch
-- ARGV  1 epoch  2 viewers  3 fans  4 least time between two writes, ms  5 how many came and left  6 most processes
--       7 length of a bucket, ms  8 about the most points  9 lifetime of the history, s
-- Returns  {'counted'} | {'same'} | {'early', ms until it may be written} | {'not_open'}
local state, epoch, viewers, fans, at, known, watched = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'viewers',
  'fans', 'counted_at', 'arrivals', 'watched_ms'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'not_open' }
end
local arrivals, joins, leaves, news = merge_arrivals(known, ARGV[5], ARGV[6])
if (viewers or '0') == ARGV[2] and (fans or '0') == ARGV[3] and not news then
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
redis.call('HSET', KEYS[1], 'viewers', ARGV[2], 'fans', ARGV[3], 'counted_at', whole(now), 'arrivals', arrivals,
  'watched_ms', watched_until(now, watched, viewers, at))
-- One point a bucket, whichever gateway writes it. If the clock went back, the newest bucket goes on.
local bucket, number = now - now % tonumber(ARGV[7]), 0
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if last then
  local began, written = string.match(last[1], '^(%d+)-(%d+)$')
  if tonumber(began) >= bucket then
    bucket, number = tonumber(began), tonumber(written) + 1
    redis.call('XDEL', KEYS[2], last[1])
  end
end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[8], whole(bucket) .. '-' .. whole(number),
  'viewers', ARGV[2], 'fans', ARGV[3], 'joins', joins, 'leaves', leaves)
if redis.call('XLEN', KEYS[2]) == 1 then
  -- Redis gives the first entry 4 KiB; a stream that is restored has what it needs, and grows from there. A Redis that
  -- refuses this keeps the larger one.
  redis.pcall('RESTORE', KEYS[2], 0, redis.pcall('DUMP', KEYS[2]), 'REPLACE')
end
redis.call('EXPIRE', KEYS[2], ARGV[9])
return { 'counted' }
