-- A gateway's word that it holds a live open: keeps the record's peaks and the streamer's last sign up to date, and
-- writes the record again if it is gone.
-- KEYS  1 record  2 removals  3 bans
-- ARGV  1 epoch  2 streamer  3 slices  4 opened at  5 opened by  6 peak viewers  7 peak fans  8 1 if the streamer was heard
--       9 number of the last removal that the gateway knows of  10 by how much numbers leap over those that were lost
-- Says  {'open', ms since the streamer was heard, opened at, number of the last removal} | {'rewritten'} | {'over', fields of the record…}
local now = clock()
local state, epoch, viewers, fans, seen, opened, removals = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch',
  'peak_viewers', 'peak_fans', 'streamer_seen', 'opened_at', 'removals'))

-- The gateway knows of later removals than the store: they were lost. No number may mean two things.
local function leap_over(last)
  if tonumber(ARGV[9]) > last then
    last = tonumber(ARGV[9]) + tonumber(ARGV[10])
    redis.call('HSET', KEYS[1], 'removals', whole(last))
  end
  return last
end

-- Epochs only grow: a record of an older one is a record that was lost and came back from a backup.
local older = tonumber(epoch or '') and tonumber(epoch) < tonumber(ARGV[1])
if older or (not state and redis.call('EXISTS', KEYS[1]) == 0) then
  redis.call('DEL', KEYS[1])
  redis.call('UNLINK', KEYS[2], KEYS[3])
  redis.call('HSET', KEYS[1], 'state', 'open', 'streamer_id', ARGV[2], 'epoch', ARGV[1], 'slices', ARGV[3],
    'opened_at', ARGV[4], 'opened_by', ARGV[5], 'peak_viewers', ARGV[6], 'peak_fans', ARGV[7],
    'streamer_seen', whole(now))
  leap_over(0)
  return { 'rewritten' }
end
if state ~= 'open' or epoch ~= ARGV[1] then
  return answer('over', KEYS[1])
end
if tonumber(ARGV[6]) > (tonumber(viewers) or 0) then
  redis.call('HSET', KEYS[1], 'peak_viewers', ARGV[6])
end
if tonumber(ARGV[7]) > (tonumber(fans) or 0) then
  redis.call('HSET', KEYS[1], 'peak_fans', ARGV[7])
end
if ARGV[8] == '1' then
  redis.call('HSET', KEYS[1], 'streamer_seen', whole(now))
  seen = now
end
local last = leap_over(tonumber(removals or '0') or 0)
return { 'open', whole(math.max(0, now - (tonumber(seen) or now))), opened or ARGV[4], whole(last) }
