-- Forgets what belongs to an open epoch, where none is open: who was sent out, and what gateways said of their viewers.
-- Whoever writes a lost record again begins on empty ground in any case.
-- KEYS  1 record  2 removals  3 bans  4 viewers
-- Says  1 if the record is closed or gone
local state = redis.call('HGET', KEYS[1], 'state')
if state and state ~= 'closed' then
  return 0
end
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4])
return 1
