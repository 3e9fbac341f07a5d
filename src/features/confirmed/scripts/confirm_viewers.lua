-- Confirms those of some users who are in a slice of a live, and counts the viewers who were confirmed within the window.
-- Forgets up to 1,000 older ones.
-- KEYS  1 members  2 claims  3 fence  4 confirmed viewers
-- ARGV  1 epoch  2 the window, ms  3 lifetime, s  4… users of the slice, none to count only
-- Returns  {viewers confirmed within the window, viewers of whom any confirmation is kept}; zeros if the slice does not
--          belong to this epoch, or the epoch is closed
local fence = read_fence(KEYS[3])
if fence.phase ~= 'open' or fence.epoch ~= tonumber(ARGV[1]) then
  return { 0, 0 }
end
size_or_drop(KEYS[4], redis.pcall('ZCARD', KEYS[4]))
local now, users, found = clock(), { unpack(ARGV, 4) }, {}
if #users > 0 then
  local claims = claims_on(KEYS[2], users)
  -- In a rebuild gateways have not said all users again, and nobody leaves the public set.
  local members = fence.rebuild and are_in(KEYS[1], users) or {}
  for i, user in ipairs(users) do
    if claims[i] or members[i] == 1 then
      found[#found + 1] = whole(now)
      found[#found + 1] = user
    end
  end
end
if #found > 0 then
  redis.call('ZADD', KEYS[4], unpack(found))
  redis.call('EXPIRE', KEYS[4], ARGV[3])
end
forget_ended(KEYS[4], now - ARGV[2])
return { redis.call('ZCOUNT', KEYS[4], '(' .. whole(now - ARGV[2]), '+inf'), redis.call('ZCARD', KEYS[4]) }
