-- Serves the streams of events, and the groups that read them.

-- Turns the flat list of names and values that XINFO answers into a table.
local function table_of(flat)
  local named = {}
  for i = 1, #flat, 2 do
    named[flat[i]] = flat[i + 1]
  end
  return named
end

-- Finds a group of a stream. Returns nil if there is none.
local function find_group(stream, name)
  if redis.call('EXISTS', stream) == 0 then
    return nil
  end
  for _, flat in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local group = table_of(flat)
    if group.name == name then
      return group
    end
  end
end

-- Counts the entries of a stream that a group has not acknowledged, or not read. Redis counts trimmed entries in the
-- lag. It does not know the lag if it has not counted from the beginning.
local function entries_waiting(group, length)
  return group.pending + math.min(tonumber(group.lag or nil) or length, length)
end

-- Appends an event to a stream. `from` is where it begins in ARGV: id, type, the name of the field that says what it is
-- about, that field, data.
local function append_event(stream, from)
  redis.call('XADD', stream, '*', 'id', ARGV[from], 'type', ARGV[from + 1], ARGV[from + 2], ARGV[from + 3],
    'data', ARGV[from + 4])
end

-- Removes the events of a stream that are older than this, in seconds.
local function drop_older(stream, age)
  local now = clock()
  redis.call('XTRIM', stream, 'MINID', whole(math.max(0, now - age * 1000)))
end

-- Removes the events of a stream that are older than this, in seconds, and lets the stream expire after the same time.
local function keep_for(stream, lifetime)
  drop_older(stream, lifetime)
  redis.call('EXPIRE', stream, lifetime)
end
