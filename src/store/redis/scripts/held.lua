-- A page of the users of a group whom a gateway holds, and those of them that the slice lacks, or of whom it lacks what
-- it should note.
-- KEYS  1 the group's set  2 the gateway's held set of the group  3 what is noted of members, if the set keeps something
-- ARGV  1 cursor  2 members of a page
-- Returns  {next cursor, {users…}, {those that the slice lacks…}}
local page = redis.call('SSCAN', KEYS[2], ARGV[1], 'COUNT', ARGV[2])
local members, missing = page[2], {}
for first = 1, #members, 1000 do
  local some = { unpack(members, first, math.min(first + 999, #members)) }
  local notes = KEYS[3] and redis.call('HMGET', KEYS[3], unpack(some))
  for i, there in ipairs(redis.call('SMISMEMBER', KEYS[1], unpack(some))) do
    if there == 0 or notes and not notes[i] then
      missing[#missing + 1] = some[i]
    end
  end
end
return { page[1], members, missing }
