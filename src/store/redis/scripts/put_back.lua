-- Looks through a page of what a gateway holds for users whom the slice lacks, and puts them back.
-- KEYS  1 slice  2 the gateway's held set  3 fence  4 since when members are there, if the set keeps it
-- ARGV  1 cursor  2 members of a page  3 epoch  4 lifetime, s
-- Returns  {next cursor, put back, members, how many left, version, 1 while the slice is in doubt}
local fence = read_fence(KEYS[3])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[3]) then
  return { '0', 0, size_of(fence) }
end
local page = redis.call('SSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local members, put_back = page[2], 0
local now = whole((clock()))
-- SSCAN returns a set that Redis stores in one block as one page, however large.
for first = 1, #members, 1000 do
  local some = { unpack(members, first, math.min(first + 999, #members)) }
  local lacking = {}
  for i, there in ipairs(redis.call('SMISMEMBER', KEYS[1], unpack(some))) do
    if there == 0 then
      lacking[#lacking + 1] = some[i]
    end
  end
  if #lacking > 0 then
    put_back = put_back + redis.call('SADD', KEYS[1], unpack(lacking))
    redis.call('EXPIRE', KEYS[1], ARGV[4])
  end
  if KEYS[4] then
    for i, at in ipairs(redis.call('HMGET', KEYS[4], unpack(some))) do
      if not at then
        redis.call('HSET', KEYS[4], some[i], now)
        redis.call('EXPIRE', KEYS[4], ARGV[4])
      end
    end
  end
end
if put_back > 0 then
  compare_size(fence, redis.call('SCARD', KEYS[1]))
  move_on(KEYS[3], fence)
end
return { page[1], put_back, size_of(fence) }
