-- Erases the record of a closed live and all that lies beside it, unless the live has changed since the caller read it.
-- What is left says that this epoch is over, and not whose it was: a gateway that was cut off meanwhile would open it
-- again. A record that nobody can read goes without that.
-- KEYS  1 record  2 removals  3 bans  4 streams  5 history of the epoch  6 the last epoch of the live that was erased
-- ARGV  1 streamer  2 epoch, or empty for a record that nobody can read  3 when it was closed
--       4 lifetime of what is left, s
-- Returns  1, or 0 if the live has changed
local streamer, state, epoch = unpack(redis.call('HMGET', KEYS[1], 'streamer_id', 'state', 'epoch'))
if streamer ~= ARGV[1] or (ARGV[2] ~= '' and (state ~= 'closed' or epoch ~= ARGV[2])) then
  return 0
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('UNLINK', unpack(KEYS))
if ARGV[2] ~= '' then
  redis.call('SET', KEYS[6], ARGV[2] .. ' ' .. ARGV[3], 'EX', ARGV[4])
end
return 1
