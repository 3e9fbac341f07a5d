-- Reads the ends of sessions without a socket.
-- KEYS  1 the end of a session  [2 of another …]
-- Returns  for each that is there: the place of its key, its text
local found = {}
for i, key in ipairs(KEYS) do
  local text = redis.call('GET', key)
  if text then
    found[#found + 1] = i
    found[#found + 1] = text
  end
end
return found
