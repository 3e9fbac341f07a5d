-- Clears a user's bit in a part of the fans who attended.
-- KEYS  1 bits
-- ARGV  1 offset
-- Returns  the bit that was there
if redis.call('GETBIT', KEYS[1], ARGV[1]) == 0 then
  return 0
end
-- This write comes first: it changes nothing and needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('EXPIRE', KEYS[1], 0, 'GT')
redis.call('BITFIELD', KEYS[1], 'SET', 'u1', ARGV[1], 0)
return 1
