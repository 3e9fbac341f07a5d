-- Reads a page of a sorted set, ordered by score and then by member, byte by byte. A binary search finds where the last
-- page ended, so a million equal scores cost no more than a million different ones. The last member of that page may be
-- gone by now.
-- KEYS  1 sorted set
-- ARGV  1 up | down  2 limit  [3 score and 4 member of the last entry seen]
-- Returns  {member, score, …}
local up, limit = ARGV[1] == 'up', tonumber(ARGV[2])
local card = redis.call('ZCARD', KEYS[1])

-- Tells whether a comes before b. Lua's own `<` depends on the locale, and the order in Redis does not.
local function before(a, b)
  local shared = math.min(#a, #b)
  for i = 1, shared do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

-- Finds the rank of an entry with this score and member, and whether the entry is there.
local function place(score, member)
  local stored = redis.call('ZSCORE', KEYS[1], member)
  -- Callers know scores as whole numbers from 0; another program may have written others.
  if stored and math.max(0, math.floor(tonumber(stored))) == tonumber(score) then
    return redis.call('ZRANK', KEYS[1], member), true
  end
  local low = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. score)
  local high = low + redis.call('ZCOUNT', KEYS[1], score, score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(redis.call('ZRANGE', KEYS[1], middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low, false
end

local first = up and 0 or card - 1
if ARGV[3] then
  local rank, there = place(ARGV[3], ARGV[4])
  if up then
    first = there and rank + 1 or rank
  else
    first = rank - 1
  end
end
if first < 0 or first >= card then
  return {}
end
if up then
  return redis.call('ZRANGE', KEYS[1], first, first + limit - 1, 'WITHSCORES')
end
local reverse = card - 1 - first
return redis.call('ZREVRANGE', KEYS[1], reverse, reverse + limit - 1, 'WITHSCORES')
