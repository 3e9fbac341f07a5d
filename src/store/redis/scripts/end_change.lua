-- Deletes the note of a change, if it is still this one.
-- KEYS  1 notes
-- ARGV  1 what is changed  2 the stamp
-- Returns  1 if it was
local note = redis.call('HGET', KEYS[1], ARGV[1])
if not note or string.match(note, '^%d+') ~= ARGV[2] then
  return 0
end
return redis.call('HDEL', KEYS[1], ARGV[1])
