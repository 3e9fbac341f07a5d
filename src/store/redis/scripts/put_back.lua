-- Looks through a page of the users of a group whom a gateway holds, and puts back those whom the slice lacks.
-- KEYS  1 members  2 fence  3 the group's set  4 the gateway's held set of the group
--       5 since when members are there  6 fans, both of a live
-- ARGV  1 cursor  2 members of a page  3 epoch  4 lifetime, s
-- Returns  {next cursor, put back, SIZE…}
local fence = read_fence(KEYS[2])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[3]) then
  return { '0', 0, size_of(fence) }
end
local page = redis.call('SSCAN', KEYS[4], ARGV[1], 'COUNT', ARGV[2])
local held, put_back = page[2], 0
local since = KEYS[3] == KEYS[1] and KEYS[5]
local now = whole((clock()))
-- If Redis stores a set in one block, SSCAN returns it as one page, however large it is.
for first = 1, #held, 1000 do
  local some = { unpack(held, first, math.min(first + 999, #held)) }
  local lacking = {}
  for i, there in ipairs(redis.call('SMISMEMBER', KEYS[3], unpack(some))) do
    if there == 0 then
      lacking[#lacking + 1] = some[i]
    end
  end
  if #lacking > 0 then
    put_back = put_back + redis.call('SADD', KEYS[3], unpack(lacking))
    redis.call('EXPIRE', KEYS[3], ARGV[4])
  end
  if since then
    for i, at in ipairs(redis.call('HMGET', since, unpack(some))) do
      if not at then
        redis.call('HSET', since, some[i], now)
        redis.call('EXPIRE', since, ARGV[4])
      end
    end
  end
end
if put_back > 0 then
  compare_sizes(fence, sizes(KEYS[1], KEYS[6]))
  move_on(KEYS[2], fence)
end
return { page[1], put_back, size_of(fence) }
