-- Takes an author's statuses out of a timeline, which has a thousand entries at most.
-- KEYS  1 timeline
-- ARGV  1 the beginning of the author's statuses
-- Returns  how many there were
local gone = {}
for _, status in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if string.sub(status, 1, #ARGV[1]) == ARGV[1] then
    gone[#gone + 1] = status
  end
end
if #gone > 0 then
  redis.call('ZREM', KEYS[1], unpack(gone))
end
return #gone
