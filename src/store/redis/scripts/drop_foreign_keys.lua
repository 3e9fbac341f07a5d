-- Removes keys that another program put in the place of a slice's keys: keys of another type, and a fence that no
-- script can read.
-- KEYS  1 members  2 the held set of the calling gateway, which may have no entry  3 gateways  4 fence
--       5 notes on members, if the set has some
--       of a live:  6 fans  7 the gateway's held fans  8 different viewers  9 different fans
-- ARGV  1 prefix of held sets  2 prefix of held fans  3 prefix of stays, or empty  4 prefix of sessions
-- Returns  the keys that were removed…
local removed = {}
local function drop_unless(key, wanted)
  local found = redis.call('TYPE', key).ok
  if found ~= wanted and found ~= 'none' then
    redis.call('UNLINK', key)
    removed[#removed + 1] = key
  end
end
drop_unless(KEYS[1], 'set')
drop_unless(KEYS[2], 'set')
drop_unless(KEYS[3], 'hash')
drop_unless(KEYS[4], 'string')
if KEYS[5] then
  drop_unless(KEYS[5], 'hash')
end
if KEYS[6] then
  drop_unless(KEYS[6], 'set')
  drop_unless(KEYS[7], 'set')
  for _, key in ipairs({ KEYS[8], KEYS[9] }) do
    -- PFCOUNT fails on a key that is no HyperLogLog.
    if type(redis.pcall('PFCOUNT', key)) == 'table' then
      redis.call('UNLINK', key)
      removed[#removed + 1] = key
    end
  end
end
for _, gateway in ipairs(redis.call('HKEYS', KEYS[3])) do
  drop_unless(ARGV[1] .. gateway, 'set')
  drop_unless(ARGV[2] .. gateway, 'set')
end
local readable, fence = pcall(function() return read_fence(KEYS[4]) end)
if not readable then
  redis.call('UNLINK', KEYS[4])
  removed[#removed + 1] = KEYS[4]
elseif fence.phase == 'open' then
  if ARGV[3] ~= '' then
    drop_unless(ARGV[3] .. whole(fence.epoch), 'hash')
    drop_unless(ARGV[4] .. whole(fence.epoch), 'zset')
  end
  -- A script that failed at one of these keys may have done only half of its work.
  if #removed > 0 then
    fence.not_before = fence.not_before or 0
    move_on(KEYS[4], fence)
  end
end
return removed
