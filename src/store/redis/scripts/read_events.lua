-- Takes or keeps the turn to send events to a webhook, and reads events.
-- KEYS  1 stream  2 turn
-- ARGV  1 gateway  2 length of the turn, ms  3 group  4 where a new group begins
--       5 the entry after which to read those that were read and not acknowledged, or > for those that were never read
--       6 most entries; may be 0
-- Returns  {'other'} | {'mine', entries that wait, entries lost, {id, fields…}…}
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[1] then
  return { 'other' }
end
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2])

-- Turns the flat list of names and values that XINFO answers into a table.
local function table_of(flat)
  local named = {}
  for i = 1, #flat, 2 do
    named[flat[i]] = flat[i + 1]
  end
  return named
end

local function find_group()
  if redis.call('EXISTS', KEYS[1]) == 0 then
    return nil
  end
  for _, flat in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local group = table_of(flat)
    if group.name == ARGV[3] then
      return group
    end
  end
end

local group = find_group()
if not group then
  redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[3], ARGV[4], 'MKSTREAM')
  group = find_group()
end
local stream, lost = table_of(redis.call('XINFO', 'STREAM', KEYS[1])), 0
local read = tonumber(group['entries-read'] or nil)
local removed = stream['entries-added'] - stream.length
if read and removed > read and ARGV[5] == '>' and tonumber(ARGV[6]) > 0 then
  -- The cap trimmed entries before the group read them.
  lost = removed - read
  redis.call('XGROUP', 'SETID', KEYS[1], ARGV[3], group['last-delivered-id'], 'ENTRIESREAD', removed)
end
-- Redis counts trimmed entries in the lag. It does not know the lag if it has not counted from the beginning.
local waiting = group.pending + math.min(tonumber(group.lag or nil) or stream.length, stream.length)
local reply = { 'mine', whole(waiting), whole(lost) }
if tonumber(ARGV[6]) > 0 then
  local found = redis.call('XREADGROUP', 'GROUP', ARGV[3], 'sender', 'COUNT', ARGV[6], 'STREAMS', KEYS[1], ARGV[5])
  for _, entry in ipairs(found and found[1][2] or {}) do
    local piece = { entry[1] }
    for _, text in ipairs(entry[2] or {}) do
      piece[#piece + 1] = text
    end
    reply[#reply + 1] = piece
  end
end
return reply
