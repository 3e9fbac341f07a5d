-- Serves every kind of script: the clock, numbers as text, errors, and messages.
--
-- All scripts share the functions of the prelude. `scripts.rs` puts those that a script calls before the script's text.
-- No function touches a key until a script calls it.
--
-- A full Redis refuses a script at its first command that may need memory, unless the script has written before. So a
-- script that frees memory, or that must work even if Redis is full, begins with a write that needs no memory.

-- Reads the node's own clock. Returns Unix milliseconds, and the same time in microseconds.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2]
end

-- Writes a whole number as text. Lua's own way would write 1e+14.
local function whole(n)
  return string.format('%.0f', n)
end

-- Ends the script with an error: another program, or a bug, wrote this key.
local function nonsense(what)
  error({ err = 'NONSENSE ' .. what })
end

-- Publishes a script's change on a live's channel, and returns the script's answer, a list. If Redis refuses the
-- message, the change stays, and the answer begins with 'not published' and Redis's own sentence.
local function publish(channel, message, answer)
  local said = redis.pcall('SPUBLISH', channel, message)
  if type(said) == 'table' and said.err then
    table.insert(answer, 1, said.err)
    table.insert(answer, 1, 'not published')
  end
  return answer
end

-- Drops the members of a sorted set whose scores are times that are over, up to 1,000 a call.
local function forget_ended(set, now)
  local ended = redis.call('ZRANGE', set, '-inf', whole(now), 'BYSCORE', 'LIMIT', 0, 1000)
  if #ended > 0 then
    redis.call('ZREM', set, unpack(ended))
  end
end
