-- renew
-- Puts a new time to what one gateway said of lives in which it is alone, where all stands as it expects, and has it stand
-- under the gateway's own lease. Makes no key.
-- ARGV  1 gateway, then for each part its kind and what is expected:
--         record epoch removals heard   KEYS record           the epoch is open, no later removal; heard: 1 if the streamer was
--         slice fans number             KEYS slice, gateways  so many fans, no other gateway's entry, and the last call
--                                                             has this number
--         companions                    KEYS held set, fence  both are there
--         fans count                    KEYS slice            so many fans
--         viewers count word            KEYS viewers          so many viewers, by the word of this number, and no other
--                                                             gateway's word. One of none is not marked
-- Says  {the place of each part that is not as expected…}
-- A key of another program's, or a write that is refused, is something new and no reason to leave the others.
local call = redis.pcall
local me = ARGV[1]
local now = whole((clock()))
local k, a, part = 1, 2, 0
local news = {}
while a <= #ARGV do
  local kind, same = ARGV[a], false
  part = part + 1
  if kind == 'record' then
    local state, epoch, removals = unpack(call('HMGET', KEYS[k], 'state', 'epoch', 'removals'))
    same = state == 'open' and epoch == ARGV[a + 1] and (removals or '0') == ARGV[a + 2]
    if same and ARGV[a + 3] == '1' then
      same = type(call('HSET', KEYS[k], 'streamer_seen', now)) == 'number'
    end
    k, a = k + 1, a + 4
  elseif kind == 'slice' then
    local all = call('HGETALL', KEYS[k + 1])
    same = #all == 2 and all[1] == me and string.match(all[2], ':(%d+)%+?$') == ARGV[a + 2]
      and call('SCARD', KEYS[k]) == tonumber(ARGV[a + 1])
      and call('HSET', KEYS[k + 1], me, now .. ':' .. ARGV[a + 2] .. '+') == 0
    k, a = k + 2, a + 3
  elseif kind == 'companions' then
    same = call('EXISTS', KEYS[k], KEYS[k + 1]) == 2
    k, a = k + 2, a + 1
  elseif kind == 'fans' then
    same = call('SCARD', KEYS[k]) == tonumber(ARGV[a + 1])
    k, a = k + 1, a + 2
  else
    local all = call('HGETALL', KEYS[k])
    local viewers, number = string.match(all[2] or '', '^(%d+):%d+:(%d+)%+?$')
    same = #all == 2 and all[1] == me and viewers == ARGV[a + 1] and number == ARGV[a + 2]
      and call('HSET', KEYS[k], me, viewers .. ':' .. now .. ':' .. number .. (viewers == '0' and '' or '+')) == 0
    k, a = k + 1, a + 3
  end
  if not same then
    news[#news + 1] = part
  end
end
return news
