-- Notes when users of the platform were seen last.

-- Returns a user as a member of last-seen: the id, or the four bytes of the number. If the id is no such number,
-- returns the empty text, which is no user's member.
local function seen_member(form, user)
  if form ~= 'u32' then
    return user
  end
  local number = (user == '0' or string.match(user, '^[1-9]%d*$')) and #user <= 10 and tonumber(user)
  return number and number < 4294967296 and struct.pack('>I4', number) or ''
end

-- Notes when users, at most 1,000, were seen last. Of two times the later one stays. If another program has put
-- something else in the place of the times, the function notes nothing and does not fail. The set of users online can
-- then change all the same.
local function note_last_seen(seen, form, users, at)
  local noted = {}
  for _, user in ipairs(users) do
    local member = seen_member(form, user)
    if member ~= '' then
      noted[#noted + 1] = whole(at(user))
      noted[#noted + 1] = member
    end
  end
  if #noted > 0 then
    redis.pcall('ZADD', seen, 'GT', unpack(noted))
  end
end
