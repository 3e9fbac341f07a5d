-- Removes a user from an open live: notes the removal, and how long the user is banned. A call that runs late or twice
-- removes the user once more.
-- KEYS  1 record  2 removals  3 bans
-- ARGV  1 epoch  2 user  3 ban, ms; 0: none  4 most bans  5 most changes kept  6 lifetime, s
--       7 most fields of a record that takes an event; 0: no event is made  8 channel  9 message  10 who asks for it, as the note on the event ends
-- Returns  {'done', number, when the ban ends or 0} | {'full'} | {'host'} | {'crowded'} | {'over'} | {'absent'}
local shut, last = read_book(KEYS[1], ARGV[1])
if shut then
  return { shut }
end
local is_told = ARGV[7] ~= '0'
if is_told and is_crowded(KEYS[1], ARGV[7]) then
  return { 'crowded' }
end
local now, ban = clock(), tonumber(ARGV[3])
local hosts = redis.call('HGET', KEYS[1], 'hosts') or ''
if ban > 0 and string.find(' ' .. hosts .. ' ', ' ' .. ARGV[2] .. ' ', 1, true) then
  return { 'host' }
end
forget_ended(KEYS[3], now)
if ban > 0 then
  if not redis.call('ZSCORE', KEYS[3], ARGV[2]) and redis.call('ZCARD', KEYS[3]) >= tonumber(ARGV[4]) then
    return { 'full' }
  end
  redis.call('ZADD', KEYS[3], whole(now + ban), ARGV[2])
  redis.call('EXPIRE', KEYS[3], ARGV[6])
end
local ends = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[2]) or '0')
-- If very many bans have ended, some of them are still in the set.
local banned = ends > now
if is_told then
  local what = banned and 'user.banned ' .. ARGV[2] .. ' ' .. whole(ends) or 'user.removed ' .. ARGV[2]
  note_event(KEYS[1], what .. ARGV[10], ARGV[7])
end
local number = note(KEYS, last, ARGV[2], '+' .. ARGV[2], ARGV[5], ARGV[6])
return publish(ARGV[8], ARGV[9], { 'done', number, whole(banned and ends or 0) })
