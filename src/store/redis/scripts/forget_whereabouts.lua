-- Drops what gateways said of users, and the gateways' marks.
-- KEYS  1 whereabouts
-- ARGV  1 how many gateways, the gateways, then the users
-- Returns  1
local dead, gone, fields = {}, {}, {}
local last = 1 + tonumber(ARGV[1])
for i = 2, last do
  dead[ARGV[i]] = true
  gone[#gone + 1] = '#' .. ARGV[i]
end
local there = #ARGV > last and redis.call('HMGET', KEYS[1], unpack(ARGV, last + 1)) or {}
for i = last + 1, #ARGV do
  local value = there[i - last]
  local words = words_without(value or '', dead)
  if value and #words == 0 then
    gone[#gone + 1] = ARGV[i]
  elseif value and table.concat(words, ',') ~= value then
    fields[#fields + 1] = ARGV[i]
    fields[#fields + 1] = table.concat(words, ',')
  end
end
-- If another program wrote here, the next call of a gateway has to find that out.
local was_counted = is_counted(KEYS[1])
if #gone > 0 then
  redis.call('HDEL', KEYS[1], unpack(gone))
end
if #fields > 0 then
  redis.call('HSET', KEYS[1], unpack(fields))
end
if #gone > 0 and was_counted then
  count_fields(KEYS[1])
end
return 1
