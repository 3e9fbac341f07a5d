-- Looks through a page of a slice for members whom no gateway holds, and takes them out if told to.
-- KEYS  1 slice  2 gateways  3 fence
--       4 since when members are there, if the set keeps it; last seen, if they are the users of the platform
-- ARGV  1 cursor  2 members of a page  3 prefix of held sets  4 count | drop  5 prefix of stays, or empty
--       6 text | u32 of the users of the platform, otherwise empty
-- Returns  {next cursor, strays, card, members of all held sets, members by the count of the scripts, how many left,
--           version, 1 while the slice is in doubt, up to 10 strays…}
local page = redis.call('SSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local next, members = page[1], page[2]
local names, strays = {}, 0
local fence = read_fence(KEYS[3])
local now = clock()
local stays = ARGV[5] ~= '' and ARGV[5] .. whole(fence.epoch)
local since, seen = since_or_seen(KEYS[4], ARGV[6])
local ended = on_end(stays, seen, ARGV[6], function() return now end)
-- SSCAN returns a set that Redis stores in one block as one page, however large.
for first = 1, #members, 1000 do
  local left = unheld(KEYS[2], ARGV[3], { unpack(members, first, math.min(first + 999, #members)) })
  strays = strays + #left
  for i = 1, math.min(#left, 10 - #names) do
    names[#names + 1] = left[i]
  end
  if ARGV[4] == 'drop' and #left > 0 then
    drop_members(KEYS[1], since, left, ended)
  end
end
local card = redis.call('SCARD', KEYS[1])
-- Without an open fence the keys have expired, and nobody asks for the size.
if ARGV[4] == 'drop' and strays > 0 and fence.phase == 'open' then
  compare_size(fence, card)
  move_on(KEYS[3], fence)
end
local held = 0
for _, gateway in ipairs(redis.call('HKEYS', KEYS[2])) do
  held = held + redis.call('SCARD', ARGV[3] .. gateway)
end
local answer = { next, strays, card, held, size_of(fence) }
for _, name in ipairs(names) do
  answer[#answer + 1] = name
end
return answer
