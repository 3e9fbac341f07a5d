-- Deletes the note of a change, if the note still has this stamp.
-- KEYS  1 notes
-- ARGV  1 what changes  2 the stamp
-- Returns  1 if the script deleted it
local note = redis.call('HGET', KEYS[1], ARGV[1])
if not note or string.match(note, '^%d+') ~= ARGV[2] then
  return 0
end
return redis.call('HDEL', KEYS[1], ARGV[1])
