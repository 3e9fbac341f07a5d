-- closing → closed, for one epoch. Leaves anything else alone.
-- KEYS  1 record  2 removals  3 bans  4 unique viewers  5 unique fans  6 history of the epoch
-- ARGV  1 epoch  2 lifetime of a closed record and of its history, s
-- Returns  {'record', fields of the record as it is now…}, no fields if there is none
local state, epoch = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch'))
if state == 'closing' and epoch == ARGV[1] then
  -- This write comes first: a full Redis accepts it (see prelude.lua). The close already removed them when it began.
  redis.call('UNLINK', KEYS[2], KEYS[3], KEYS[4], KEYS[5])
  -- Whoever finishes a close has put its events into the stream.
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 6) == 'event:' then
      redis.call('HDEL', KEYS[1], field)
    end
  end
  redis.call('HDEL', KEYS[1], 'counts_told')
  redis.call('HSET', KEYS[1], 'state', 'closed')
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  redis.call('EXPIRE', KEYS[6], ARGV[2])
end
return answer('record', KEYS[1])
