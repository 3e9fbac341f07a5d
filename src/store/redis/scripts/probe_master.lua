-- Probes a master: whether it takes writes, whether it still has its data, and what time it is.
-- KEYS  1 canary
-- ARGV  1 a nonce, new with each call
-- Returns  {canary or empty, now in ms}. A replica refuses with READONLY.

-- This write changes nothing and needs no memory: a full server takes it, and a replica does not.
redis.call('PERSIST', KEYS[1])
local canary = redis.call('GET', KEYS[1])
if not canary then
  -- A full server may refuse this, though most take it after another write.
  redis.pcall('SET', KEYS[1], ARGV[1], 'NX')
  canary = redis.call('GET', KEYS[1])
end
local t = redis.call('TIME')
return { canary or '', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000)) }
