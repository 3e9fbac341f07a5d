-- Claims one more open live for a streamer, within the streamer's limits.
-- KEYS  1 the streamer's open lives
-- ARGV  1 live  2 most lives that may be open  3 what one opening takes of the budget, ms  4 the whole budget, ms
--       5 lifetime, s
-- Returns  {'yes'} | {'full', lives that are claimed…} | {'fast', ms to wait}
local PACE = ':pace'
local now = (clock())
local pace = tonumber(redis.call('ZSCORE', KEYS[1], PACE) or 0)
local claimed = redis.call('ZSCORE', KEYS[1], ARGV[1])
local open = redis.call('ZCARD', KEYS[1]) - (pace > 0 and 1 or 0)
if not claimed and open >= tonumber(ARGV[2]) then
  local lives = { 'full' }
  for _, live in ipairs(redis.call('ZRANGE', KEYS[1], 0, 99)) do
    if live ~= PACE then
      lives[#lives + 1] = live
    end
  end
  return lives
end
-- The time until which all openings, this one included, would last at the allowed pace.
local after = math.max(pace, now) + tonumber(ARGV[3])
if after - now > tonumber(ARGV[4]) then
  return { 'fast', whole(after - now - tonumber(ARGV[4])) }
end
redis.call('ZADD', KEYS[1], whole(after), PACE, whole(now), ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return { 'yes' }
