-- A page of the invisible users of a slice, without those who were not last seen in a span.
-- KEYS  1 invisible users  2 last seen
-- ARGV  1 text | u32  2 from, ms  3 to, ms; +inf: no end  4 cursor  5 members of a page
-- Returns  {next cursor, users…}
local page = redis.call('SSCAN', KEYS[1], ARGV[4], 'COUNT', ARGV[5])
local reply = { page[1] }
for _, user in ipairs(page[2]) do
  local at = tonumber(redis.call('ZSCORE', KEYS[2], seen_member(ARGV[1], user)) or '')
  if at and at >= tonumber(ARGV[2]) and (ARGV[3] == '+inf' or at <= tonumber(ARGV[3])) then
    reply[#reply + 1] = user
  end
end
return reply
