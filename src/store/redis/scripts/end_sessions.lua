-- Notes that ids of sessions without a socket are over. Of two ends of a session the one with more ids stays.
-- KEYS  1 the end of a session  [2 of another …]
-- ARGV  1 lifetime, ms  2 channel  3 message, or empty for none  4 below which number ids of the first session are over
--       5 why  [6 and 7 the same for the second …]
-- Returns  {'done'}
for i, key in ipairs(KEYS) do
  local below, why = ARGV[2 * i + 2], ARGV[2 * i + 3]
  local there = tonumber(string.match(redis.call('GET', key) or '', '^%d+') or '-1')
  if there < tonumber(below) then
    redis.call('SET', key, below .. ' ' .. why, 'PX', ARGV[1])
  end
end
if ARGV[3] == '' then
  return { 'done' }
end
return publish(ARGV[2], ARGV[3], { 'done' })
