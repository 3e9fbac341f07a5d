-- Adds a user to a list, unless the list is full.
-- KEYS  1 list
-- ARGV  1 user  2 how many users a list may have
-- Returns  'added' | 'there' | 'full'
if redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 'there'
end
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then
  return 'full'
end
redis.call('ZADD', KEYS[1], whole((clock())), ARGV[1])
return 'added'
