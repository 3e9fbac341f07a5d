-- Sets a live from open to closing, and publishes that on the live's channel. From here on no script notes a removal or
-- writes counts, and earlier removals are gone. The last figures become a point of the history.
-- KEYS  1 record  2 removals  3 bans  4 history of the epoch
-- ARGV  1 epoch  2 reason  3 peak viewers  4 peak fans  5 most fields of a record  6 channel  7 message
--       8 1 if the slices counted different users, or empty; the end of the close writes how many
--       9 length of a bucket, ms  10 about the most points  11 lifetime of the history, s
-- Returns  {'closing' | 'closed' | 'other', fields of the record…} | {'absent'}
local state, epoch, peak_viewers, peak_fans, viewers, fans, joins, leaves, at, watched, guests = unpack(
  redis.call('HMGET', KEYS[1], 'state', 'epoch', 'peak_viewers', 'peak_fans', 'viewers', 'fans', 'joins', 'leaves', 'counted_at',
    'watched_ms', 'guests'))
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
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('UNLINK', KEYS[2], KEYS[3])
redis.call('HDEL', KEYS[1], 'info', 'info_version', 'version', 'viewers', 'fans', 'guests', 'counted_at')
redis.call('HSET', KEYS[1], 'state', 'closing', 'peak_viewers', higher(peak_viewers, ARGV[3]),
  'peak_fans', higher(peak_fans, ARGV[4]))
local now = clock()
if tonumber(at or '') then
  append_point(now, KEYS[4], tonumber(at), { viewers, fans, joins, leaves, guests }, unpack(ARGV, 9, 11))
end
if redis.call('HSETNX', KEYS[1], 'closed_at', whole(now)) == 1 then
  redis.call('HSET', KEYS[1], 'reason', ARGV[2], 'watched_ms', watched_until(now, watched, viewers, at))
  if ARGV[8] ~= '' then
    redis.call('HSET', KEYS[1], 'unique_viewers', '0', 'unique_fans', '0')
  end
  note_event(KEYS[1], 'live.closed', ARGV[5])
end
return publish(ARGV[6], ARGV[7], answer('closing', KEYS[1]))
