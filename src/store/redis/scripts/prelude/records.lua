-- Reads and writes the record of a live, its removals, its history and its events.

-- Returns a word, and behind it the fields of a record as a flat list.
local function answer(word, key)
  local fields = redis.call('HGETALL', key)
  table.insert(fields, 1, word)
  return fields
end

-- Writes the fields of a record that have a value. `fields` is {name, value, …}.
local function put_given(key, fields)
  for i = 1, #fields, 2 do
    if fields[i + 1] ~= '' then
      redis.call('HSET', key, fields[i], fields[i + 1])
    end
  end
end

-- Tells whether a script can note removals of this epoch. Returns nil and the number of the last one, or why not.
local function read_book(record, epoch)
  local state, present, last = unpack(redis.call('HMGET', record, 'state', 'epoch', 'removals'))
  if not state and redis.call('EXISTS', record) == 0 then
    return 'absent'
  end
  if state ~= 'open' or present ~= epoch then
    return 'over'
  end
  return nil, tonumber(last or '0') or 0
end

-- Notes what happened to a user under the next number, in the place of `before`, and returns the number. Drops the
-- oldest change if there are too many.
local function note(keys, last, entry, before, most, lifetime)
  local number = whole(last + 1)
  redis.call('HSET', keys[1], 'removals', number)
  redis.call('ZREM', keys[2], before)
  redis.call('ZADD', keys[2], number, entry)
  if redis.call('ZCARD', keys[2]) > tonumber(most) then
    redis.call('ZREM', keys[2], unpack(redis.call('ZRANGE', keys[2], 0, 0)))
  end
  redis.call('EXPIRE', keys[2], lifetime)
  return number
end

-- Appends the figures of a record to its history: viewers, fans, joins, leaves, and guests if there are any. They hold since `at`, and their bucket is over. If the clock went
-- back, they replace the newest point. The lifetime of the history begins anew once a day.
local function append_point(now, history, at, figures, bucket, most, lifetime)
  local fields = {}
  for i, name in ipairs({ 'viewers', 'fans', 'joins', 'leaves' }) do
    fields[2 * i - 1], fields[2 * i] = name, figures[i] or '0'
  end
  if (figures[5] or '0') ~= '0' then
    fields[9], fields[10] = 'guests', figures[5]
  end
  local id = whole(at - at % tonumber(bucket)) .. '-0'
  local added = redis.pcall('XADD', history, 'NOMKSTREAM', 'MAXLEN', '~', most, id, unpack(fields))
  if not added then
    redis.call('XADD', history, id, unpack(fields))
    -- Redis gives the first entry 4 KiB. A restored stream takes only what it needs, and grows from there. A Redis that
    -- refuses to restore it keeps the larger stream.
    redis.pcall('RESTORE', history, 0, redis.pcall('DUMP', history), 'REPLACE')
  elseif type(added) == 'table' then
    local last = redis.pcall('XREVRANGE', history, '+', '-', 'COUNT', 1)[1]
    if not last then
      return
    end
    local began, number = string.match(last[1], '^(%d+)-(%d+)$')
    redis.call('XDEL', history, last[1])
    redis.call('XADD', history, began .. '-' .. whole(tonumber(number) + 1), unpack(fields))
  end
  if not added or math.floor(at / 86400000) < math.floor(now / 86400000) then
    redis.call('EXPIRE', history, lifetime)
  end
end

-- Returns the sum of the times that the viewers of a live were there, in ms, up to now. The figures of the record hold
-- since `at`.
local function watched_until(now, watched, viewers, at)
  local since = math.max(0, now - (tonumber(at or '') or now))
  return whole((tonumber(watched or '') or 0) + (tonumber(viewers or '') or 0) * since)
end

-- Tells whether a record has so many fields that it takes no event but that of the close.
local function is_crowded(record, most)
  return redis.call('HLEN', record) >= tonumber(most)
end

-- Notes an event of a live, a kind and its words, in the record until the event is in the stream. Returns whether the
-- event is noted.
local function note_event(record, what, most)
  if what ~= 'live.closed' and is_crowded(record, most) then
    return false
  end
  local last = tonumber(redis.call('HGET', record, 'last_event') or '') or 0
  local number = whole(math.max(last + 1, (clock())))
  redis.call('HSET', record, 'last_event', number, 'event:' .. number, what)
  return true
end

-- Returns the higher of a field of a record and a number, as text.
local function higher(field, number)
  return whole(math.max(tonumber(field or '') or 0, tonumber(number)))
end
