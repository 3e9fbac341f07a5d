-- Takes jobs: first jobs that their workers have not kept for a long time, then new jobs.
-- KEYS  1 stream of jobs  2 their progress
-- ARGV  1 worker  2 the group  3 after how many ms the worker takes a job over  4 how many jobs at most
-- Returns  {how many jobs are not finished, age of the oldest in ms, id, job, time, how far it got, …}
local group = ARGV[2]
if redis.call('EXISTS', KEYS[1]) == 0 then
  -- If Redis lost the stream but not the hash, the jobs in the hash would count as unfinished for ever.
  redis.call('UNLINK', KEYS[2])
  return { 0, 0 }
end
local answer = { redis.call('XLEN', KEYS[1]), 0 }
local first = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
if first then
  answer[2] = whole(math.max(0, clock() - tonumber(string.match(first[1], '^%d+'))))
end
local most = tonumber(ARGV[4])
if most == 0 then
  return answer
end

-- Puts jobs into the answer, and notes that they belong to the worker. Returns how many.
local function take(entries)
  for _, entry in ipairs(entries) do
    local fields = {}
    for i = 1, #entry[2], 2 do
      fields[entry[2][i]] = entry[2][i + 1]
    end
    local job = fields.job or ''
    local got = string.match(redis.call('HGET', KEYS[2], job) or '', '^%S+ (.*)$') or ''
    redis.call('HSET', KEYS[2], job, ARGV[1] .. ' ' .. got)
    for _, word in ipairs({ entry[1], job, fields.at or '0', got }) do
      answer[#answer + 1] = word
    end
  end
  return #entries
end

local left = redis.pcall('XAUTOCLAIM', KEYS[1], group, group, ARGV[3], '0-0', 'COUNT', most)
if left.err then
  if not string.find(left.err, 'NOGROUP') then
    return redis.error_reply(left.err)
  end
  redis.call('XGROUP', 'CREATE', KEYS[1], group, '0')
  left = { '0-0', {} }
end
most = most - take(left[2])
if most > 0 then
  local new = redis.call('XREADGROUP', 'GROUP', group, group, 'COUNT', most, 'STREAMS', KEYS[1], '>')
  if new then
    take(new[1][2])
  end
end
return answer
