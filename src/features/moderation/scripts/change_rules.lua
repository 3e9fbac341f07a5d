-- Makes, lifts, restores or erases rules of moderation. Each change has a number, which grows. A lifted rule stays as
-- '-' for a time, so that gateways learn of it. Drops up to 100 rules and rests of rules that are over.
-- KEYS  1 rules  2 their numbers  3 ends of rules and of what is left of lifted ones  4 state
-- ARGV  1 put, lift, restore, erase or unname  2 a new name for rules that were lost, or for the first ones
--       3 how long the rest of a lifted rule stays, ms
--       4 put, lift: the actor whose ban a moderator must leave as it is, or empty if the caller is no moderator;
--         restore: the name of the rules that the caller knows  5 restore: the last number that the caller knows
--       then for each rule its name, and put: how long it holds, in ms, 0 for ever; by whom; why;
--       restore: what it says
-- Returns  {'done', whether the rule was there, the time, its end} | {'kept'}
local how, now = ARGV[1], (clock())
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('HDEL', KEYS[1], '')
local name, last, floor = unpack(redis.call('HMGET', KEYS[4], 'name', 'last', 'floor'))
last, floor = tonumber(last), tonumber(floor) or 0
if not name or not last then
  local _, micros = clock()
  name, last = ARGV[2], micros
end
if how == 'restore' and name == ARGV[4] and last < tonumber(ARGV[5]) then
  -- An older state of Redis came back: every gateway has to tell what it knows.
  name, last = ARGV[2], tonumber(ARGV[5]) + 1
end

local function note(rule, says)
  last = last + 1
  redis.call('HSET', KEYS[1], rule, says)
  redis.call('ZADD', KEYS[2], whole(last), rule)
  local ends = says == '-' and now + tonumber(ARGV[3]) or tonumber(string.match(says, '^%d+')) or 0
  if ends > 0 then
    redis.call('ZADD', KEYS[3], whole(ends), rule)
  else
    redis.call('ZREM', KEYS[3], rule)
  end
end

local function drop(rule)
  redis.call('HDEL', KEYS[1], rule)
  redis.call('ZREM', KEYS[2], rule)
  redis.call('ZREM', KEYS[3], rule)
end

local function settle()
  redis.call('HSET', KEYS[4], 'name', name, 'last', whole(last), 'floor', whole(floor))
end

-- Whether a rule runs, and by whom it was made.
local function running(rule)
  local ends, by = string.match(redis.call('HGET', KEYS[1], rule) or '', '^(%d+) %d+ ([^ ]+)')
  return ends ~= nil and (ends == '0' or tonumber(ends) > now), by
end

for _, rule in ipairs(redis.call('ZRANGE', KEYS[3], '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, 100)) do
  if redis.call('HGET', KEYS[1], rule) == '-' then
    floor = math.max(floor, tonumber(redis.call('ZSCORE', KEYS[2], rule)) or 0)
  end
  drop(rule)
end

if how == 'put' or how == 'lift' then
  local rule = ARGV[6]
  local was, by = running(rule)
  -- A moderator leaves alone what the streamer or a back end did.
  if was and ARGV[4] ~= '' and (by == ARGV[4] or by == '-' or string.find(by, '^key:') or string.find(by, '^service:')) then
    settle()
    return { 'kept' }
  end
  local ends = '0'
  if how == 'put' then
    if ARGV[7] ~= '0' then
      ends = whole(now + tonumber(ARGV[7]))
    end
    local why = ARGV[9] ~= '' and ' ' .. ARGV[9] or ''
    note(rule, ends .. ' ' .. whole(now) .. ' ' .. ARGV[8] .. why)
  else
    note(rule, '-')
  end
  settle()
  return { 'done', was and 1 or 0, whole(now), ends }
end
for i = 6, #ARGV, how == 'restore' and 2 or 1 do
  local rule = ARGV[i]
  local says = redis.call('HGET', KEYS[1], rule)
  if how == 'restore' and not says then
    note(rule, ARGV[i + 1])
  elseif how == 'erase' and says then
    -- Nothing may name the rule any more, so gateways read all rules again.
    drop(rule)
    last = last + 1
    floor = last
  elseif how == 'unname' and says then
    local whenever, why = string.match(says, '^(%d+ %d+) [^ ]+(.*)$')
    if whenever then
      note(rule, whenever .. ' -' .. why)
    end
  end
end
settle()
return { 'done', 0, whole(now), '0' }
