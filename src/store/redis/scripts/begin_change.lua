-- Notes that a change of several keys begins, unless a change of the same thing is under way. Works even if Redis is
-- full.
-- KEYS  1 notes
-- ARGV  1 what changes  2 how  3 how long a note keeps other callers away, ms  4 'new', or 'left' to take over a note
-- Returns  {'begun', its stamp}, {'busy'}, {'left', how} for a note that another call left, {'over'} if there is none
local now = clock()
local note = redis.call('HGET', KEYS[1], ARGV[1])
local stamp, how
if note then
  stamp, how = string.match(note, '^(%d+) (.*)$')
end
if stamp and math.abs(now - tonumber(stamp)) < tonumber(ARGV[3]) then
  return { 'busy' }
elseif stamp and ARGV[4] == 'new' then
  return { 'left', how }
elseif ARGV[4] == 'left' and how ~= ARGV[2] then
  return { 'over' }
end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[1], ARGV[1], whole(now) .. ' ' .. ARGV[2])
return { 'begun', whole(now) }
