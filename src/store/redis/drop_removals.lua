-- Forgets who was sent out of a closed live.
-- KEYS  1 record  2 removals  3 bans
-- Says  1 if it is closed
if redis.call('HGET', KEYS[1], 'state') ~= 'closed' then
  return 0
end
redis.call('UNLINK', KEYS[2], KEYS[3])
return 1
