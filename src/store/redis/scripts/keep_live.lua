-- Keeps the record of a live that a gateway holds open: raises its peaks, and writes the record again if it is gone.
-- KEYS  1 record  2 removals  3 bans  4 the last epoch of the live that was erased
-- ARGV  1 epoch  2 streamer  3 slices  4 opened at  5 opened by  6 peak viewers  7 peak fans
--       8 number of the last removal that the gateway knows of  9 how far numbers leap over lost ones
--       10 title or empty  11 streamer timeout, s, or empty
--       12 version  13 version of the information, or 0  14 information or empty
--       15 channel  16 message, for a record that is written again  17 1 if the live has attendance, or empty
--       18 1 if the live is in no feed, or empty  19 its hosts, with spaces, or empty
-- Returns  {'open', number of the last removal, version} | {'rewritten'}
--          | {'over', fields of the record…} | {'erased', when the epoch was closed}
local state, epoch, viewers, fans, removals, known = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch',
  'peak_viewers', 'peak_fans', 'removals', 'version'))

local function put(field, value)
  -- This write comes first: a full Redis accepts it (see basics.lua).
  redis.call('HDEL', KEYS[1], '')
  redis.call('HSET', KEYS[1], field, value)
end

-- Leaps over the numbers of removals that the gateway knows and the store lost, so that no number means two things.
local function leap_over(last)
  if tonumber(ARGV[8]) > last then
    last = tonumber(ARGV[8]) + tonumber(ARGV[9])
    put('removals', whole(last))
  end
  return last
end

-- Writes again what a back end changed, which the gateway knows and the store lost.
local function put_changes(last)
  if tonumber(ARGV[12]) <= last then
    return last
  end
  redis.call('HDEL', KEYS[1], 'info', 'info_version', 'title', 'streamer_timeout_s', 'hosts')
  local info_version = ARGV[13] ~= '0' and ARGV[13] or ''
  put_given(KEYS[1], { 'version', ARGV[12], 'info_version', info_version, 'info', ARGV[14], 'title', ARGV[10],
    'streamer_timeout_s', ARGV[11], 'hosts', ARGV[19] })
  return tonumber(ARGV[12])
end

-- Epochs only grow, so a record of an older epoch came back from a backup.
local older = tonumber(epoch or '') and tonumber(epoch) < tonumber(ARGV[1])
if older or (not state and redis.call('EXISTS', KEYS[1]) == 0) then
  local erased, closed_at = string.match(redis.call('GET', KEYS[4]) or '', '^(%d+) (%d+)$')
  if erased and tonumber(erased) >= tonumber(ARGV[1]) then
    return { 'erased', closed_at }
  end
  redis.call('UNLINK', unpack(KEYS))
  redis.call('HSET', KEYS[1], 'state', 'open', 'streamer_id', ARGV[2], 'epoch', ARGV[1], 'slices', ARGV[3],
    'opened_at', ARGV[4], 'opened_by', ARGV[5], 'peak_viewers', ARGV[6], 'peak_fans', ARGV[7])
  leap_over(0)
  put_given(KEYS[1], { 'title', ARGV[10], 'streamer_timeout_s', ARGV[11], 'attendance', ARGV[17],
    'invisible', ARGV[18], 'hosts', ARGV[19] })
  put_changes(0)
  return publish(ARGV[15], ARGV[16], { 'rewritten' })
end
if state ~= 'open' or epoch ~= ARGV[1] then
  return answer('over', KEYS[1])
end
if tonumber(ARGV[6]) > (tonumber(viewers) or 0) then
  put('peak_viewers', ARGV[6])
end
if tonumber(ARGV[7]) > (tonumber(fans) or 0) then
  put('peak_fans', ARGV[7])
end
local last, version = leap_over(tonumber(removals or '0') or 0), put_changes(tonumber(known or '0') or 0)
return { 'open', whole(last), whole(version) }
