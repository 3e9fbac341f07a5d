-- A gateway holds a live open: raises the record's peaks, and writes the record again if it is gone.
-- KEYS  1 record  2 removals  3 bans  4 viewers
-- ARGV  1 epoch  2 streamer  3 slices  4 opened at  5 opened by  6 1 if all viewers are kept in slices, or empty
--       7 peak viewers  8 peak fans  9 number of the last removal that the gateway knows of
--       10 how far numbers leap over lost ones  11 channel  12 message, for a record that is written again
-- Returns  {'open', number of the last removal} | {'rewritten'} | {'over', fields of the record…}
local state, epoch, viewers, fans, removals = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'peak_viewers',
  'peak_fans', 'removals'))

local function put(field, value)
  -- This write comes first: a full Redis accepts it (see prelude.lua).
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], field, value)
end

-- The store lost removals that the gateway knows of. Leap over their numbers, so that no number means two things.
local function leap_over(last)
  if tonumber(ARGV[9]) > last then
    last = tonumber(ARGV[9]) + tonumber(ARGV[10])
    put('removals', whole(last))
  end
  return last
end

-- Epochs only grow, so a record of an older epoch came back from a backup.
local older = tonumber(epoch or '') and tonumber(epoch) < tonumber(ARGV[1])
if older or (not state and redis.call('EXISTS', KEYS[1]) == 0) then
  redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
  redis.call('HSET', KEYS[1], 'state', 'open', 'streamer_id', ARGV[2], 'epoch', ARGV[1], 'slices', ARGV[3],
    'opened_at', ARGV[4], 'opened_by', ARGV[5], 'peak_viewers', ARGV[7], 'peak_fans', ARGV[8])
  put_exact_viewers(KEYS[1], ARGV[6])
  leap_over(0)
  publish(ARGV[11], ARGV[12])
  return { 'rewritten' }
end
if state ~= 'open' or epoch ~= ARGV[1] then
  return answer('over', KEYS[1])
end
if tonumber(ARGV[7]) > (tonumber(viewers) or 0) then
  put('peak_viewers', ARGV[7])
end
if tonumber(ARGV[8]) > (tonumber(fans) or 0) then
  put('peak_fans', ARGV[8])
end
return { 'open', whole(leap_over(tonumber(removals or '0') or 0)) }
