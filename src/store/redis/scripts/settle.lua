-- Ends the doubt about a slice: what it holds now is what it should hold.
-- KEYS  1 slice  2 fence
-- ARGV  1 epoch  2 card less the count of the scripts, as it was before the slice was compared with what gateways hold
-- Returns  {'settled', card, version} | {'early'}: gateways may still have to write again whom they hold
--           | {'changed'}: another program wrote meanwhile | {'over'}: the slice does not belong to this epoch
local fence = read_fence(KEYS[2])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[1]) then
  return { 'over' }
end
local card = redis.call('SCARD', KEYS[1])
if not fence.not_before then
  return { 'settled', card, whole(fence.version) }
end
if clock() < fence.not_before then
  return { 'early' }
end
if card - fence.count ~= tonumber(ARGV[2]) then
  return { 'changed' }
end
fence.count, fence.not_before = card, nil
-- This write comes first: it needs no memory, so a full Redis accepts the next one (see prelude.lua).
redis.call('SREM', KEYS[1], '')
return { 'settled', card, move_on(KEYS[2], fence) }
