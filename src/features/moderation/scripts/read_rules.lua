-- Reads the changes of rules of moderation after a number.
-- KEYS  1 rules  2 their numbers  3 state
-- ARGV  1 the number  2 how many at most
-- Returns  {the time, name of the rules or empty, last number, floor, {rule, number, …}, {what each says, or '-'…}}.
--          Who has no number above the floor reads all rules again: what is left of some lifted ones is gone.
local name, last, floor = unpack(redis.call('HMGET', KEYS[3], 'name', 'last', 'floor'))
local changes = redis.call('ZRANGE', KEYS[2], '(' .. ARGV[1], '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
local says = {}
if #changes > 0 then
  local rules = {}
  for i = 1, #changes, 2 do
    rules[#rules + 1] = changes[i]
  end
  says = redis.call('HMGET', KEYS[1], unpack(rules))
  for i = 1, #rules do
    says[i] = says[i] or '-'
  end
end
return { whole((clock())), name or '', last or '0', floor or '0', changes, says }
