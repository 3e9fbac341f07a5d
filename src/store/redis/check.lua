-- Looks through a page of a slice for members whom no gateway holds, and takes them out if told to.
-- KEYS  1 slice  2 gateways
-- ARGV  1 the gateway that asks, which must have an entry; or empty  2 cursor  3 members of a page  4 prefix of held sets
--       5 count | drop
-- Says  {next cursor, looked at, strays, card, members of all held sets, now in µs, up to 10 strays…}
local _, micros = clock()
local now = whole(micros)
if ARGV[1] ~= '' and redis.call('HEXISTS', KEYS[2], ARGV[1]) == 0 then
  return { '0', 0, 0, redis.call('SCARD', KEYS[1]), 0, now }
end
local page = redis.call('SSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
local next, members = page[1], page[2]
local names, strays = {}, 0
-- A set that Redis keeps as one block comes as one page, however large its settings let it grow.
for first = 1, #members, 1000 do
  local left = unheld(KEYS[2], ARGV[4], { unpack(members, first, math.min(first + 999, #members)) })
  strays = strays + #left
  for i = 1, math.min(#left, 10 - #names) do
    names[#names + 1] = left[i]
  end
  if ARGV[5] == 'drop' and #left > 0 then
    redis.call('SREM', KEYS[1], unpack(left))
  end
end
local held = 0
for _, gateway in ipairs(redis.call('HKEYS', KEYS[2])) do
  held = held + redis.call('SCARD', ARGV[4] .. gateway)
end
return { next, #members, strays, redis.call('SCARD', KEYS[1]), held, now, unpack(names) }
