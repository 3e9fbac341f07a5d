-- Writes the state of a live's streams, unless another gateway wrote meanwhile, and notes it in the record of the open
-- epoch. Publishes the change on the live's channel.
-- KEYS  1 streams  2 record
-- ARGV  1 version that the gateway read, 0 for none  2 state, JSON  3 lifetime, s  4 epoch
--       5 1 to write nothing unless the epoch is open, or empty  6 status for the record, or empty
--       7 event for the record, or empty  8 most fields of a record  9 channel  10 message, or empty for none
-- Returns  {'written', fields of the record…}, no fields if there is no record | {'changed'} | {'over'}
local seen = tonumber(redis.call('HGET', KEYS[1], 'version') or '0') or 0
if seen ~= tonumber(ARGV[1]) then
  return { 'changed' }
end
local state, epoch = unpack(redis.call('HMGET', KEYS[2], 'state', 'epoch'))
local is_open = state == 'open' and epoch == ARGV[4]
if ARGV[5] ~= '' and not is_open then
  return { 'over' }
end
-- This write comes first: a full Redis accepts it (see basics.lua).
redis.call('HDEL', KEYS[1], '')
-- The version is at least the time, so no version is used again, whatever data Redis lost.
redis.call('HSET', KEYS[1], 'version', whole(math.max(seen + 1, (clock()))), 'state', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[3])
if is_open then
  redis.call('HDEL', KEYS[2], 'stream')
  put_given(KEYS[2], { 'stream', ARGV[6] })
  if ARGV[7] ~= '' then
    note_event(KEYS[2], ARGV[7], ARGV[8])
  end
end
if ARGV[10] == '' then
  return answer('written', KEYS[2])
end
return publish(ARGV[9], ARGV[10], answer('written', KEYS[2]))
