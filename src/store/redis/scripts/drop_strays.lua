-- Looks for strays, users whom no gateway holds, in a page of a group of a slice. Removes them if told to.
-- KEYS  1 members  2 fence  3 gateways  4 the group's set
--       5 notes on members, if the set has some  6 fans, of a live; last seen, of the users of the
--       platform
-- ARGV  1 cursor  2 members of a page  3 prefix of the group's held sets  4 count | drop  5 prefix of stays, or empty
--       6 text | u32 of the users of the platform, otherwise empty
-- Returns  {next cursor, strays, users of the group, users of all held sets, SIZE…, up to 10 strays…}
local page = redis.call('SSCAN', KEYS[4], ARGV[1], 'COUNT', ARGV[2])
local next, users = page[1], page[2]
local names, strays = {}, 0
if ARGV[4] == 'drop' then
  require_here(KEYS[3], { ARGV[3] })
end
local fence = read_fence(KEYS[2])
local fans_set, seen = fans_or_seen(KEYS[6], ARGV[6])
local notes, ended
if KEYS[4] == KEYS[1] then
  local now = clock()
  local stays = ARGV[5] ~= '' and ARGV[5] .. whole(fence.epoch)
  notes, ended = KEYS[5], on_end(stays, seen, ARGV[6], function() return now end)
end
-- If Redis stores a set in one block, SSCAN returns it as one page, however large it is.
for first = 1, #users, 1000 do
  local left = unheld(KEYS[3], ARGV[3], { unpack(users, first, math.min(first + 999, #users)) })
  strays = strays + #left
  for i = 1, math.min(#left, 10 - #names) do
    names[#names + 1] = left[i]
  end
  if ARGV[4] == 'drop' and #left > 0 then
    drop_members(KEYS[4], notes, left, ended)
  end
end
-- Without an open fence the keys have expired, and no caller needs the size.
if ARGV[4] == 'drop' and strays > 0 and fence.phase == 'open' then
  compare_sizes(fence, sizes(KEYS[1], fans_set))
  move_on(KEYS[2], fence)
end
local held = 0
for _, gateway in ipairs(redis.call('HKEYS', KEYS[3])) do
  held = held + redis.call('SCARD', ARGV[3] .. gateway)
end
local card, fans, left, version, doubt = size_of(fence)
return { next, strays, redis.call('SCARD', KEYS[4]), held, card, fans, left, version, doubt, unpack(names) }
