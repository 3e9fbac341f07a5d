-- open → closing, and publishes it on the live's channel. From here on nobody can note a removal or count anybody, and
-- earlier removals are gone. The last figures become a point of the history.
-- KEYS  1 record  2 removals  3 bans  4 unique viewers  5 unique fans  6 history of the epoch
-- ARGV  1 epoch  2 reason  3 peak viewers  4 peak fans  5 most fields of a record  6 channel  7 message
--       8 how many came and left  9 1 if those who came were counted, or empty  10 most gateways that count
--       11 length of a bucket, ms  12 about the most points  13 lifetime of the history, s
-- Returns  {'closing' | 'closed' | 'other', fields of the record…} | {'absent'}
local state, epoch, peak_viewers, peak_fans, viewers, fans, at, known, watched = unpack(redis.call('HMGET', KEYS[1],
  'state', 'epoch', 'peak_viewers', 'peak_fans', 'viewers', 'fans', 'counted_at', 'arrivals', 'watched_ms'))
if not state and redis.call('EXISTS', KEYS[1]) == 0 then
  return { 'absent' }
end
if epoch ~= ARGV[1] then
  return answer('other', KEYS[1])
end
if state == 'closed' then
  return answer('closed', KEYS[1])
end
if state ~= 'open' and state ~= 'closing' then
  nonsense('live record')
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see prelude.lua).
redis.call('UNLINK', KEYS[2], KEYS[3])
redis.call('HDEL', KEYS[1], 'info', 'info_version', 'viewers', 'fans', 'counted_at')
redis.call('HSET', KEYS[1], 'state', 'closing',
  'peak_viewers', whole(math.max(tonumber(peak_viewers) or 0, tonumber(ARGV[3]))),
  'peak_fans', whole(math.max(tonumber(peak_fans) or 0, tonumber(ARGV[4]))))
known = stored_arrivals(KEYS[1], known)
local now = clock()
if tonumber(at or '') then
  append_point(now, KEYS[6], tonumber(at), viewers, fans, known, unpack(ARGV, 11, 13))
end
if redis.call('HSETNX', KEYS[1], 'closed_at', whole(now)) == 1 then
  local arrivals, news = merge_arrivals(known, ARGV[8], ARGV[10])
  redis.call('HSET', KEYS[1], 'reason', ARGV[2], 'watched_ms', watched_until(now, watched, viewers, at))
  if news then
    store_arrivals(KEYS[1], arrivals, known)
  end
  if ARGV[9] ~= '' then
    redis.call('HSET', KEYS[1], 'unique_viewers', redis.call('PFCOUNT', KEYS[4]),
      'unique_fans', redis.call('PFCOUNT', KEYS[5]))
  end
  note_event(KEYS[1], 'live.closed', ARGV[5])
end
redis.call('UNLINK', KEYS[4], KEYS[5])
return publish(ARGV[6], ARGV[7], answer('closing', KEYS[1]))
