-- Ends a user's ban early.
-- KEYS  1 record  2 removals  3 bans
-- ARGV  1 epoch  2 user  3 most changes kept  4 lifetime, s  5 most fields of a record  6 channel  7 message
--       8 who asks for it, as the note on the event ends
-- Returns  {'lifted', number, 1 if the event is noted} | {'free'} | {'over'} | {'absent'}
local shut, last = read_book(KEYS[1], ARGV[1])
if shut then
  return { shut }
end
forget_ended(KEYS[3], clock())
if redis.call('ZREM', KEYS[3], ARGV[2]) == 0 then
  return { 'free' }
end
local number = note(KEYS, last, '+' .. ARGV[2], ARGV[2], ARGV[3], ARGV[4])
local is_told = note_event(KEYS[1], 'user.unbanned ' .. ARGV[2] .. ARGV[8], ARGV[5])
return publish(ARGV[6], ARGV[7], { 'lifted', number, is_told and 1 or 0 })
