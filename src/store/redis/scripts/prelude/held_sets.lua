-- Reads the entries of gateways in a slice, and the held sets beside it.

-- Returns the number in a gateway's entry as text, or nil if there is none. A former version of this program wrote
-- entries without a number. Such a gateway counts as unknown, and the members that it holds stay.
local function entry_number(value)
  return value and string.match(value, '^%d+$')
end

-- Ends the script if a held set has already moved to another node. Redis moves the keys of a slot one by one, and a
-- script learns the names of held sets only while it runs. Scripts call this function before they write anything, so
-- that no script ends half way.
local function require_here(gateways, prefixes)
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    for _, prefix in ipairs(prefixes) do
      redis.call('EXISTS', prefix .. gateway)
    end
  end
end

-- Returns the members whom no gateway holds. Asks each held set only about members that no earlier held set has.
local function unheld(gateways, prefix, members)
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    if #members == 0 then
      return members
    end
    local held = prefix .. gateway
    if redis.call('EXISTS', held) == 1 then
      local holds = redis.call('SMISMEMBER', held, unpack(members))
      local left = {}
      for i, member in ipairs(members) do
        if holds[i] == 0 then
          left[#left + 1] = member
        end
      end
      members = left
    end
  end
  return members
end
