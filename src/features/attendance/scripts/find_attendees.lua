-- Finds the fans of one part who came to lives. Answers 'many' if one step would have to look at too many members.
-- KEYS  the part's set of each live
-- ARGV  1 all | any | not  2 the most members to look at in one set, or to answer  3 the most look-ups
-- Returns  {'done', user…} | {'many', card…}: too many for one step
local most, cards, sum = tonumber(ARGV[2]), {}, 0
for i, key in ipairs(KEYS) do
  cards[i] = redis.call('SCARD', key)
  sum = sum + cards[i]
end
-- The number of members to look at, each in as many sets as there are.
local looked = ARGV[1] == 'all' and math.min(unpack(cards)) or ARGV[1] == 'any' and sum or cards[1]
if looked > most or looked * #KEYS > tonumber(ARGV[3]) and ARGV[1] ~= 'any' then
  return { 'many', unpack(cards) }
end
if ARGV[1] == 'all' then
  return { 'done', unpack(redis.call('SINTER', unpack(KEYS))) }
end
if ARGV[1] == 'any' then
  return { 'done', unpack(redis.call('SUNION', unpack(KEYS))) }
end
local left = redis.call('SMEMBERS', KEYS[1])
for i = 2, #KEYS do
  if #left == 0 then
    break
  end
  local others, stays = redis.call('SMISMEMBER', KEYS[i], unpack(left)), {}
  for place, there in ipairs(others) do
    if there == 0 then
      stays[#stays + 1] = left[place]
    end
  end
  left = stays
end
return { 'done', unpack(left) }
