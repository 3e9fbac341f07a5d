-- Notes in which lives users are on a gateway. The gateway's last words about a user come after those of others.
-- KEYS  1 whereabouts
-- ARGV  1 gateway  2 number of the call  3 number of its last call that was answered, or 0  4 most words of a user
--       5 lifetime, s, then for each user: user, lives with commas between
-- Returns  {'unbroken'} | {'broken': the words of calls that were answered are lost} | {'old'}
-- This write comes first: it needs no memory, so a full Redis accepts the script (see prelude.lua).
local first = redis.pcall('HDEL', KEYS[1], '')
if type(first) == 'table' then
  -- Another program put a key of another type here.
  redis.call('UNLINK', KEYS[1])
end
if not is_counted(KEYS[1]) then
  -- Another program added fields or removed some. Without the marks, every gateway finds that its words may be lost,
  -- and says them again.
  local marks = {}
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, 1) == '#' then
      marks[#marks + 1] = field
    end
  end
  redis.call('HDEL', KEYS[1], unpack(marks))
end
local mark = '#' .. ARGV[1]
-- '<last call>:<base>': the call with the number of the base was answered, and since then nothing was lost; or the
-- chain of calls broke at it. A former version of this program wrote the last call alone.
local last, base = string.match(redis.call('HGET', KEYS[1], mark) or '', '^(%d+):?(%d*)$')
last = tonumber(last or '0')
base = tonumber(base or '') or last
local number, known = tonumber(ARGV[2]), tonumber(ARGV[3])
if number <= last then
  return { 'old' }
end
-- Whether calls without an answer were carried out does not matter: their gateway says all of it again.
local unbroken = known == 0 or known == last or known == base
local users, fields, gone = {}, { mark, ARGV[2] .. ':' .. (unbroken and ARGV[3] or ARGV[2]) }, {}
for i = 6, #ARGV, 2 do
  users[#users + 1] = ARGV[i]
end
local there = #users > 0 and redis.call('HMGET', KEYS[1], unpack(users)) or {}
for i, user in ipairs(users) do
  local words = words_without(there[i] or '', { [ARGV[1]] = true })
  for live in string.gmatch(ARGV[2 * i + 5], '[^,]+') do
    words[#words + 1] = ARGV[1] .. ' ' .. live
  end
  while #words > tonumber(ARGV[4]) do
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
count_fields(KEYS[1])
redis.call('EXPIRE', KEYS[1], ARGV[5])
return { unbroken and 'unbroken' or 'broken' }
