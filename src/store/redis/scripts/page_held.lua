-- Reads a page of the users of a group whom a gateway holds, and finds the users among them about whom the slice is
-- wrong: it lacks the user, it lacks the note on the user, or the note has words of a gateway that does not hold the
-- user.
-- KEYS  1 the group's set  2 the gateway's held set of the group  3 notes on members, if the set has some
-- ARGV  1 cursor  2 members of a page  3 gateway  4 prefix of held sets, if the notes are the lives in which users are
-- Returns  {next cursor, {users…}, {users about whom the slice is wrong…}, {the lives of each user on this gateway,
--          with commas between…}}
local page = redis.call('SSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local members, missing, lives = page[2], {}, {}

-- Returns the lives of a user on this gateway, and whether the note has words of another gateway that does not hold the
-- user.
local function read_note(note, user)
  local own, has_nobodys = {}, false
  for gateway, live in string.gmatch(note, '([^ ,]+) ([^ ,]+)') do
    if gateway == ARGV[3] then
      own[#own + 1] = live
    elseif redis.call('SISMEMBER', ARGV[4] .. gateway, user) == 0 then
      has_nobodys = true
    end
  end
  return table.concat(own, ','), has_nobodys
end

for first = 1, #members, 1000 do
  local some = { unpack(members, first, math.min(first + 999, #members)) }
  local notes = KEYS[3] and redis.call('HMGET', KEYS[3], unpack(some))
  for i, there in ipairs(redis.call('SMISMEMBER', KEYS[1], unpack(some))) do
    local is_wrong = there == 0 or notes and not notes[i]
    if ARGV[4] ~= '' then
      local own, has_nobodys = read_note(notes[i] or '', some[i])
      lives[#lives + 1] = own
      is_wrong = is_wrong or has_nobodys
    end
    if is_wrong then
      missing[#missing + 1] = some[i]
    end
  end
end
return { page[1], members, missing, lives }
