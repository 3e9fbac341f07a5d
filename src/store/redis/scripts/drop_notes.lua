-- Looks through a page of the notes on members, and removes the notes on users who are not in the slice.
-- KEYS  1 members  2 notes on members
-- ARGV  1 cursor  2 fields of a page
-- Returns  {next cursor, how many notes the script removed}
local page, dropped, users = redis.call('HSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2]), 0, {}
for i = 1, #page[2], 2 do
  users[#users + 1] = page[2][i]
end
-- If Redis stores a hash in one block, HSCAN returns it as one page, however large it is.
for first = 1, #users, 1000 do
  local some, gone = { unpack(users, first, math.min(first + 999, #users)) }, {}
  for i, there in ipairs(redis.call('SMISMEMBER', KEYS[1], unpack(some))) do
    if there == 0 then
      gone[#gone + 1] = some[i]
    end
  end
  if #gone > 0 then
    dropped = dropped + redis.call('HDEL', KEYS[2], unpack(gone))
  end
end
return { page[1], dropped }
