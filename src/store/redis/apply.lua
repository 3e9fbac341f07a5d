-- One gateway's change to one slice, or its lease refresh.
-- KEYS  1 slice  2 the gateway's held set  3 gateways  4 fence  [5 gateways' own leases]
-- ARGV  1 epoch  2 gateway  3 number  4 keep | register | release  5 lease, ms  6 lifetime, s  7 prefix of held sets
--       8 count of joins  9… joins, then leaves
-- Says  {'done', card, held, now in µs, silent gateways, each with its ms of silence…} | {'closed'} | {'newer', epoch} | {'stale'} | {'unknown'}
local epoch, me, number, entry = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[4]
local phase, fenced = read_fence(KEYS[4])
if fenced > epoch then
  return { 'newer', whole(fenced) }
end
if phase == 'closed' and fenced == epoch then
  return { 'closed' }
end
local begins = not phase or fenced < epoch
if begins and entry ~= 'register' then
  return { 'unknown' }
end
-- A refresh looks at every entry anyway, to name the silent.
local entries = #ARGV == 8 and redis.call('HGETALL', KEYS[3])
local registered
local card = 0
if not begins then
  local _, last = read_entry(entries and field(entries, me) or not entries and redis.call('HGET', KEYS[3], me))
  if last and last >= number then
    return { 'stale' }
  end
  card = redis.call('SCARD', KEYS[1])
  if card == 0 and holds_any(KEYS[3], ARGV[7]) then
    -- The union was evicted or deleted, and what it was made of was not. Every gateway has to assert its part again.
    wipe(KEYS[1], KEYS[3], ARGV[7])
    last = nil
    entries = entries and {}
  end
  registered = last
  if not last and entry ~= 'register' then
    return { 'unknown' }
  end
end

local now, micros = clock()
if begins then
  wipe(KEYS[1], KEYS[3], ARGV[7])
  entries = entries and {}
end
redis.call('HSET', KEYS[3], me, whole(now) .. ':' .. whole(number))
local last_join = 8 + tonumber(ARGV[8])
if last_join > 8 then
  local joins = { unpack(ARGV, 9, last_join) }
  redis.call('SADD', KEYS[2], unpack(joins))
  redis.call('SADD', KEYS[1], unpack(joins))
end
if #ARGV > last_join then
  local leaves = { unpack(ARGV, last_join + 1) }
  redis.call('SREM', KEYS[2], unpack(leaves))
  drop_unheld(KEYS[1], KEYS[3], ARGV[7], leaves)
end

local held = redis.call('SCARD', KEYS[2])
if entry == 'release' and held == 0 then
  redis.call('HDEL', KEYS[3], me)
end
-- Lifetimes are hours; a lease that is only renewed puts them off once a minute. The held set's is nobody else's.
if #ARGV > 8 or not registered or redis.call('TTL', held > 0 and KEYS[2] or KEYS[3]) < ARGV[6] - 60 then
  redis.call('SET', KEYS[4], 'open:' .. whole(epoch), 'EX', ARGV[6])
  for i = 1, 3 do
    redis.call('EXPIRE', KEYS[i], ARGV[6])
  end
end
if #ARGV > 8 then
  card = redis.call('SCARD', KEYS[1])
end
local reply = { 'done', card, held, whole(micros) }
if entries then
  for _, piece in ipairs(silent(entries, me, tonumber(ARGV[5]), KEYS[5], now)) do
    reply[#reply + 1] = piece
  end
end
return reply
