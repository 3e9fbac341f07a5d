-- Sets a live from closing to closed, for one epoch. Leaves a record with another state or epoch alone.
-- KEYS  1 record  2 removals  3 bans  4 history of the epoch
-- ARGV  1 epoch  2 lifetime of a closed record and of its history, s  3 how many came  4 how many left
--       5 different viewers  6 different fans, both empty if the slices did not count them
-- Returns  {'record', fields of the record as it is now…}, no fields if there is no record
local state, epoch = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch'))
if state == 'closing' and epoch == ARGV[1] then
  -- This write comes first: a full Redis accepts it (see basics.lua). The close removed these keys when it began.
  redis.call('UNLINK', KEYS[2], KEYS[3])
  -- The gateway that finishes a close has already put the live's events into the stream.
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 6) == 'event:' then
      redis.call('HDEL', KEYS[1], field)
    end
  end
  redis.call('HDEL', KEYS[1], 'counts_told')
  redis.call('HSET', KEYS[1], 'state', 'closed', 'joins', ARGV[3], 'leaves', ARGV[4])
  put_given(KEYS[1], { 'unique_viewers', ARGV[5], 'unique_fans', ARGV[6] })
  redis.call('EXPIRE', KEYS[1], ARGV[2])
  redis.call('EXPIRE', KEYS[4], ARGV[2])
end
return answer('record', KEYS[1])
