-- Writes the figures of an open live into its record, and raises its peaks, unless a call did so a moment ago. The
-- figures in the record are the newest point of the history. If they belong to an earlier bucket, the script first
-- appends them to the history.
-- KEYS  1 record  2 history of the epoch
-- ARGV  1 epoch  2 viewers  3 fans  4 how many came  5 how many left  6 peak viewers  7 peak fans
--       8 least time between two writes, ms  9 length of a bucket, ms  10 about the most points
--       11 lifetime of the history, s  12 guests
-- Returns  {'counted'} | {'same'} | {'early', ms until it may be written} | {'not_open'}
local state, epoch, viewers, fans, joins, leaves, at, watched, peak_viewers, peak_fans, guests = unpack(
  redis.call('HMGET', KEYS[1], 'state', 'epoch', 'viewers', 'fans', 'joins', 'leaves', 'counted_at', 'watched_ms', 'peak_viewers',
    'peak_fans', 'guests'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'not_open' }
end
-- The store may have lost joins and leaves. Those that the record has stay counted.
local known = {
  joins or '0', leaves or '0', whole(tonumber(peak_viewers or '') or 0), whole(tonumber(peak_fans or '') or 0),
}
local told = {
  higher(joins, ARGV[4]), higher(leaves, ARGV[5]), higher(peak_viewers, ARGV[6]), higher(peak_fans, ARGV[7]),
}
if (viewers or '0') == ARGV[2] and (fans or '0') == ARGV[3] and (guests or '0') == ARGV[12]
  and table.concat(known, ' ') == table.concat(told, ' ') then
  return { 'same' }
end
local now = clock()
local left = (tonumber(at or '') or 0) + tonumber(ARGV[8]) - now
-- A longer wait than the least time means that the clock went back.
if left > 0 and left <= tonumber(ARGV[8]) then
  return { 'early', whole(left) }
end
-- This write comes first: a full Redis accepts it (see basics.lua).
redis.call('HDEL', KEYS[1], '')
at = tonumber(at or '')
if at and at - at % tonumber(ARGV[9]) < now - now % tonumber(ARGV[9]) then
  append_point(now, KEYS[2], at, { viewers, fans, joins, leaves, guests }, unpack(ARGV, 9, 11))
end
redis.call('HSET', KEYS[1], 'viewers', ARGV[2], 'fans', ARGV[3], 'counted_at', whole(now),
  'watched_ms', watched_until(now, watched, viewers, at), 'joins', told[1], 'leaves', told[2],
  'peak_viewers', told[3], 'peak_fans', told[4])
-- The record of a live to which no guest ever came has no field for them.
if guests or ARGV[12] ~= '0' then
  redis.call('HSET', KEYS[1], 'guests', ARGV[12])
end
return { 'counted' }
