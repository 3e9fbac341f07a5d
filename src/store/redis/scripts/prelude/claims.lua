-- Reads and changes what gateways claim of users.
--
-- The hash of claims has '<since> <claim> <claim>…' for each user: when the user of a live came, ms, or nothing; and
-- the claims in the order in which gateways made them last. A claim is the token of a gateway, and behind it nothing for
-- a member, 'f' for a fan, or '=<live>,<live>…' for a user of the platform.
--
-- The hash of entries has '<token>:<number of its last call>' for each gateway, with '+' behind it until the gateway
-- has said all that it holds; '<token>:dead' after its burial. For the users of the platform it also has '#<token>'
-- with the name of each living gateway, because a question in which lives a few users are must not read all entries.

-- Reads an entry. Returns the token, and the number or 'dead'; nil if there is none, or if no script wrote it.
local function read_entry(value)
  local token, number = string.match(value or '', '^(%d+):(%d+)%+?$')
  if not token then
    token, number = string.match(value or '', '^(%d+):(dead)$')
  end
  return token, number
end

-- Reads the entries of a slice. Returns the living gateways by token, and the dead ones.
local function read_tokens(gateways)
  local living, dead = {}, {}
  local entries = redis.call('HGETALL', gateways)
  for i = 1, #entries, 2 do
    local token, number = read_entry(entries[i + 1])
    if number == 'dead' then
      dead[token] = entries[i]
    elseif token then
      living[token] = entries[i]
    end
  end
  return living, dead
end

-- Returns the pattern of the claim of the gateway with this token.
local function claim_of(token)
  return ' ' .. token .. '%f[%D][^ ]*'
end

-- Takes the claim that matches a pattern out of a user's value. Returns nil if no claim is left.
local function take_out(value, pattern)
  local from, to = string.find(value, pattern)
  if not from then
    return value
  end
  value = string.sub(value, 1, from - 1) .. string.sub(value, to + 1)
  return string.find(value, ' ', 1, true) and value or nil
end

-- Puts a claim behind the others on a user, in the place of the one that matches a pattern. `value` is false without
-- claims. Of two times since when the user is there, the earlier one stays.
local function put_in(value, pattern, claim, since)
  if not value then
    return since .. claim
  end
  local from, to = string.find(value, pattern)
  if from then
    value = string.sub(value, 1, from - 1) .. string.sub(value, to + 1)
  end
  local known, others = string.match(value, '^([^ ]*)(.*)$')
  if since ~= '' and (tonumber(known) or math.huge) < tonumber(since) then
    since = known
  end
  return since .. others .. claim
end

-- Tells whether a user is a guest: a viewer without an account, who stands in no public set and has no session.
local function is_guest(user)
  return string.byte(user) == 126
end

-- Returns those of some users who are no guests, and the place of each among all.
local function without_guests(users)
  local others, places = {}, {}
  for place, user in ipairs(users) do
    if not is_guest(user) then
      others[#others + 1], places[#places + 1] = user, place
    end
  end
  return others, places
end

-- Tells whether any claim on a user of a live says that the user is a fan. No guest is one.
local function says_fan(value, user)
  return value and not is_guest(user) and string.find(value, 'f', 1, true) ~= nil
end

-- Returns in which lives living gateways say that each of these users of the platform is, at most 1,000:
-- '<gateway> <live>' each, with commas between.
local function all_words(who, gateways, users)
  local words, tokens, fields = redis.call('HMGET', who, unpack(users)), {}, {}
  for place = 1, #users do
    for token in string.gmatch(words[place] or '', ' (%d+)=[^ ]') do
      if not tokens[token] then
        fields[#fields + 1] = '#' .. token
        tokens[token] = #fields
      end
    end
  end
  -- Most users are in no live, so many questions need no names of gateways.
  local names = #fields > 0 and redis.call('HMGET', gateways, unpack(fields))
  for place = 1, #users do
    local said, n = {}, 0
    for token, lives in string.gmatch(names and words[place] or '', ' (%d+)=([^ ]+)') do
      local gateway = names[tokens[token]]
      for live in string.gmatch(gateway and lives or '', '[^,]+') do
        n = n + 1
        said[n] = gateway .. ' ' .. live
      end
    end
    words[place] = n > 0 and table.concat(said, ',') or ''
  end
  return words
end
