-- Adds the secrets of a gateway to those that all gateways share.
-- KEYS  1 the secrets, a line each
-- ARGV  1 how many there may be  2 the gateway's present secret  [3 an earlier one …]
-- Returns  all of them; the first one signs
local all, known = {}, {}
for secret in string.gmatch(redis.call('GET', KEYS[1]) or '', '[^\n]+') do
  all[#all + 1] = secret
  known[secret] = true
end
local before = #all
for i = 2, #ARGV do
  if not known[ARGV[i]] and #all < tonumber(ARGV[1]) then
    all[#all + 1] = ARGV[i]
    known[ARGV[i]] = true
  end
end
if #all > before then
  redis.call('SET', KEYS[1], table.concat(all, '\n'))
end
return all
