-- The entries of gateways in a slice, and the held sets beside it.

-- The number in a gateway's entry, as text; nil if there is none. A former version of this program wrote entries
-- without a number: such a gateway counts as unknown, and the members that it holds stay.
local function entry_number(value)
  return value and string.match(value, '^%d+$')
end

-- Ends the script if a held set has moved to another node already: Redis moves the keys of a slot one by one, and a script
-- may name held sets only as it goes. Called before anything is written, so that no script ends half way.
local function require_here(gateways, prefixes)
  for _, gateway in ipairs(redis.call('HKEYS', gateways)) do
    for _, prefix in ipairs(prefixes) do
      redis.call('EXISTS', prefix .. gateway)
    end
  end
end

-- The members whom no gateway holds. Asks each gateway only for those that no earlier one holds.
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
