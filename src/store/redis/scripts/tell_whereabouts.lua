-- Notes in which lives users are on a gateway. The gateway's last words about a user come after those of others.
-- KEYS  1 whereabouts
-- ARGV  1 gateway  2 number of the call  3 most words of a user  4 lifetime, s, then for each user: user, lives with
--       commas between
-- Returns  {'noted', number of the call before or 0} | {'old'}
-- This write comes first: it needs no memory, so a full Redis accepts the script (see prelude.lua).
redis.call('HDEL', KEYS[1], '')
local mark = '#' .. ARGV[1]
local before = tonumber(redis.call('HGET', KEYS[1], mark) or '0') or 0
if tonumber(ARGV[2]) <= before then
  return { 'old' }
end
local users, fields, gone = {}, { mark, ARGV[2] }, {}
for i = 5, #ARGV, 2 do
  users[#users + 1] = ARGV[i]
end
local there = #users > 0 and redis.call('HMGET', KEYS[1], unpack(users)) or {}
for i, user in ipairs(users) do
  local words = words_without(there[i] or '', { [ARGV[1]] = true })
  for live in string.gmatch(ARGV[2 * i + 4], '[^,]+') do
    words[#words + 1] = ARGV[1] .. ' ' .. live
  end
  while #words > tonumber(ARGV[3]) do
    table.remove(words, 1)
  end
  if #words > 0 then
    fields[#fields + 1] = user
    fields[#fields + 1] = table.concat(words, ',')
  elseif there[i] then
    gone[#gone + 1] = user
  end
end
if #gone > 0 then
  redis.call('HDEL', KEYS[1], unpack(gone))
end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('EXPIRE', KEYS[1], ARGV[4])
return { 'noted', whole(before) }
