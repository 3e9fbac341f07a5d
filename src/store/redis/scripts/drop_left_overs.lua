-- Forgets the removals, bans and unique users of an epoch if no epoch is open. A lost record that is written
-- again begins without them in any case.
-- KEYS  1 record  2 removals  3 bans  4 unique viewers  5 unique fans
-- Returns  1 if the record is closed or gone
local state = redis.call('HGET', KEYS[1], 'state')
if state and state ~= 'closed' then
  return 0
end
redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return 1
