-- What every kind of script needs.
--
-- Shared by every script; put before its text. Nothing here touches a key until it is called.
--
-- A full Redis refuses a script at its first command that may need memory, unless the script has written before. So a
-- script that frees memory, or that must work although Redis is full, begins with a write that needs no memory.

-- The node's own clock, in Unix milliseconds, and in microseconds.
local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000), t[1] * 1000000 + t[2]
end

-- A whole number as text; Lua's own way would write 1e+14.
local function whole(n)
  return string.format('%.0f', n)
end

-- Ends the script: another program wrote this key, or a bug did.
local function nonsense(what)
  error({ err = 'NONSENSE ' .. what })
end

-- Publishes on a live's channel what a script changed, and returns the script's answer, a list. If Redis refuses the
-- message, the change is made all the same, and the answer begins with 'not published' and Redis's own sentence.
local function publish(channel, message, answer)
  local said = redis.pcall('SPUBLISH', channel, message)
  if type(said) == 'table' and said.err then
    table.insert(answer, 1, said.err)
    table.insert(answer, 1, 'not published')
  end
  return answer
end
