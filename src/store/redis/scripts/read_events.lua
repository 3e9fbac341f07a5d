-- Takes or keeps the turn to send the events of a queue to a webhook, and reads events.
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

if redis.call('EXISTS', KEYS[1]) == 0 then
  -- An empty stream would never expire. A group that is made later begins at the same place.
  return { 'mine', '0', '0' }
end
local group = find_group(KEYS[1], ARGV[3])
if not group then
  redis.call('XGROUP', 'CREATE', KEYS[1], ARGV[3], ARGV[4])
  group = find_group(KEYS[1], ARGV[3])
end
local stream, lost = table_of(redis.call('XINFO', 'STREAM', KEYS[1])), 0
local read = tonumber(group['entries-read'] or nil)
local removed = stream['entries-added'] - stream.length
if read and removed > read and ARGV[5] == '>' and tonumber(ARGV[6]) > 0 then
  -- The cap trimmed entries before the group read them.
  lost = removed - read
  redis.call('XGROUP', 'SETID', KEYS[1], ARGV[3], group['last-delivered-id'], 'ENTRIESREAD', removed)
end
local reply = { 'mine', whole(entries_waiting(group, stream.length)), whole(lost) }
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
