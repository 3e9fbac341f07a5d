-- Begins a new epoch of a live, unless one is open or closing.
-- KEYS  1 record  2 removals  3 bans
-- ARGV  1 streamer  2 slices  3 opened by  4 the highest epoch that any slice's fence has seen
--       5 the record's epoch as the caller read it, or empty  6 title or empty  7 streamer timeout, s, or empty
--       8 most fields of a record  9 channel  10 message  11 1 if the live has attendance, or empty
--       12 1 if the live is in no feed, or empty  13 its hosts, with spaces, or empty
-- Returns  {'opened' | 'already' | 'owned' | 'closing', fields of the record…} | {'changed'}
local state, streamer, stored = unpack(redis.call('HMGET', KEYS[1], 'state', 'streamer_id', 'epoch'))
if state == 'open' or state == 'closing' then
  if streamer ~= ARGV[1] then
    return answer('owned', KEYS[1])
  end
  return answer(state == 'open' and 'already' or 'closing', KEYS[1])
end
if (stored or '') ~= ARGV[5] then
  return { 'changed' }
end
local last = 0
if redis.call('EXISTS', KEYS[1]) == 1 then
  last = tonumber(stored)
  if state ~= 'closed' or not last then
    nonsense('live record')
  end
end
local now = whole((clock()))
-- The epoch is at least the time in seconds, so no epoch is used again, whatever data Redis lost.
local epoch = math.max(math.max(last, tonumber(ARGV[4])) + 1, math.floor(now / 1000))
-- A close removes the other keys; a record that was lost without a close leaves them behind.
redis.call('UNLINK', unpack(KEYS))
redis.call('HSET', KEYS[1], 'state', 'open', 'streamer_id', ARGV[1],
  'epoch', whole(epoch), 'slices', ARGV[2], 'opened_at', now, 'opened_by', ARGV[3],
  'peak_viewers', 0, 'peak_fans', 0)
put_given(KEYS[1], { 'title', ARGV[6], 'streamer_timeout_s', ARGV[7], 'attendance', ARGV[11],
  'invisible', ARGV[12], 'hosts', ARGV[13] })
note_event(KEYS[1], 'live.opened', ARGV[8])
return publish(ARGV[9], ARGV[10], answer('opened', KEYS[1]))
