-- Counts users who are online, and others who were last seen in a span.
-- KEYS  for each slice: users online, those of them who are invisible, last seen
-- ARGV  1 text | u32  2 from, ms  3 to, ms; +inf: no end
-- Returns  {online, others seen}
local online, seen = 0, 0

-- How many invisible users were seen in the span before they came: they are online.
local function came_back(invisible, last_seen)
  local back, cursor = 0, '0'
  repeat
    local page = redis.call('SSCAN', invisible, cursor, 'COUNT', 500)
    cursor = page[1]
    for _, user in ipairs(page[2]) do
      local at = tonumber(redis.call('ZSCORE', last_seen, seen_member(ARGV[1], user)) or '')
      if at and at >= tonumber(ARGV[2]) and (ARGV[3] == '+inf' or at <= tonumber(ARGV[3])) then
        back = back + 1
      end
    end
  until cursor == '0'
  return back
end

for i = 1, #KEYS, 3 do
  online = online + redis.call('SCARD', KEYS[i])
  seen = seen + redis.call('ZCOUNT', KEYS[i + 2], ARGV[2], ARGV[3])
  if redis.call('EXISTS', KEYS[i + 1]) == 1 then
    seen = seen - came_back(KEYS[i + 1], KEYS[i + 2])
  end
end
return { online, seen }
