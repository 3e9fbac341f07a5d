-- Deletes the removals and bans of a live if no epoch is open. A lost record that a gateway writes again begins without
-- them in any case.
-- KEYS  1 record  2 removals  3 bans
-- Returns  1 if the record is closed or gone
local state = redis.call('HGET', KEYS[1], 'state')
if state and state ~= 'closed' then
  return 0
end
redis.call('UNLINK', KEYS[2], KEYS[3])
return 1
