-- Removes keys of a slice that another program put in the place of ours: keys of another type, and a fence that says
-- nothing.
-- KEYS  1 slice  2 the held set of the calling gateway, which may have no entry  3 gateways  4 fence
--       5 since when members are there, if the set keeps it
-- ARGV  1 prefix of held sets  2 prefix of stays, or empty  3 prefix of sessions
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
for _, gateway in ipairs(redis.call('HKEYS', KEYS[3])) do
  drop_unless(ARGV[1] .. gateway, 'set')
end
local fence = redis.call('GET', KEYS[4])
if fence and not string.match(fence, '^open:%d+:?%d*:?%d*:?%d*$') and not string.match(fence, '^closed:%d+$') then
  redis.call('UNLINK', KEYS[4])
  removed[#removed + 1] = KEYS[4]
  fence = nil
end
if fence and string.sub(fence, 1, 5) == 'open:' then
  local open = read_fence(KEYS[4])
  if ARGV[2] ~= '' then
    drop_unless(ARGV[2] .. whole(open.epoch), 'hash')
    drop_unless(ARGV[3] .. whole(open.epoch), 'zset')
  end
  -- A script that one of the keys made fail may have done half of its work.
  if #removed > 0 then
    open.count = open.count or redis.call('SCARD', KEYS[1])
    open.not_before = open.not_before or 0
    move_on(KEYS[4], open)
  end
end
return removed
