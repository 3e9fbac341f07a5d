-- Ends a user's ban early.
-- KEYS  1 record  2 removals  3 bans
-- ARGV  1 epoch  2 user  3 most changes kept  4 lifetime, s  5 most fields of a record that takes an event; 0: no
--       event is made  6 channel  7 message  8 who asks for it, as the note on the event ends
-- Returns  {'lifted', number} | {'free'} | {'crowded'} | {'over'} | {'absent'}
local shut, last = read_book(KEYS[1], ARGV[1])
if shut then
  return { shut }
end
local is_told = ARGV[5] ~= '0'
if is_told and is_crowded(KEYS[1], ARGV[5]) then
  return { 'crowded' }
end
forget_ended(KEYS[3], clock())
if redis.call('ZREM', KEYS[3], ARGV[2]) == 0 then
  return { 'free' }
end
if is_told then
  note_event(KEYS[1], 'user.unbanned ' .. ARGV[2] .. ARGV[8], ARGV[5])
end
local number = note(KEYS, last, '+' .. ARGV[2], ARGV[2], ARGV[3], ARGV[4])
return publish(ARGV[6], ARGV[7], { 'lifted', number })
