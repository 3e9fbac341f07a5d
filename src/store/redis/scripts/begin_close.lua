-- open → closing, and publishes it on the live's channel. From here on nobody can note a removal or announce viewers,
-- and earlier removals and announcements are gone.
-- KEYS  1 record  2 removals  3 bans  4 viewers
-- ARGV  1 epoch  2 reason  3 peak viewers  4 peak fans  5 most fields of a record  6 channel  7 message
-- Returns  {'closing' | 'closed' | 'other', fields of the record…} | {'absent'}
local state, epoch, viewers, fans = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'peak_viewers', 'peak_fans'))
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
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
redis.call('HDEL', KEYS[1], 'info', 'info_version', 'viewers', 'fans', 'counted_at')
redis.call('HSET', KEYS[1], 'state', 'closing',
  'peak_viewers', whole(math.max(tonumber(viewers) or 0, tonumber(ARGV[3]))),
  'peak_fans', whole(math.max(tonumber(fans) or 0, tonumber(ARGV[4]))))
if redis.call('HSETNX', KEYS[1], 'closed_at', whole(clock())) == 1 then
  redis.call('HSET', KEYS[1], 'reason', ARGV[2])
  note_event(KEYS[1], 'live.closed', ARGV[5])
end
publish(ARGV[6], ARGV[7])
return answer('closing', KEYS[1])
