-- Notes an event if the figures of an open live differ from those of its last such event, unless that was a moment ago.
-- KEYS  1 record
-- ARGV  1 epoch  2 least time between two events, ms  3 most fields of a record
-- Returns  {'noted', fields of the record…} | {'same'} | {'early', ms until it may be noted} | {'over'}
local state, epoch, viewers, fans, guests, told = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'viewers',
  'fans', 'guests', 'counts_told'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return { 'over' }
end
local figures = (viewers or '0') .. ' ' .. (fans or '0')
if (guests or '0') ~= '0' then
  figures = figures .. ' ' .. guests
end
local last, at = string.match(told or '0 0 0', '^(%d+ %d+[ %d]*) (%d+)$')
if figures == last then
  return { 'same' }
end
local now = clock()
local left = (tonumber(at or '') or 0) + tonumber(ARGV[2]) - now
-- A longer wait than the least time means that the clock went back.
if left > 0 and left <= tonumber(ARGV[2]) then
  return { 'early', whole(left) }
end
if not note_event(KEYS[1], 'live.counts ' .. figures, ARGV[3]) then
  -- The record is full. Nothing is lost as long as a later event tells the figures.
  return { 'early', ARGV[2] }
end
redis.call('HSET', KEYS[1], 'counts_told', figures .. ' ' .. whole(now))
return answer('noted', KEYS[1])
