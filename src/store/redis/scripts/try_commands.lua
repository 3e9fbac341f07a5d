-- Calls every command that a script or a call of this program uses, and finds the commands that the server does not
-- know or does not allow. Before it ends, it deletes everything that it wrote.
-- KEYS  1 string  2 set  3 hash  4 sorted set  5 stream  6 users to be counted  7 bits  8 a key to restore
-- ARGV  1 channel  2 lifetime of keys that the script leaves behind if it cannot delete them, s
-- Returns  {command, the server's own sentence…}
local failed, is_known = {}, {}

local function try(command, ...)
  local said = redis.pcall(command, ...)
  if type(said) ~= 'table' or not said.err then
    return said
  end
  if not is_known[command] then
    is_known[command] = true
    failed[#failed + 1] = command
    failed[#failed + 1] = said.err
  end
end

local text, set, hash, scored, stream, users, bits, copy = unpack(KEYS)
-- This write comes first: it needs no memory, so a full Redis accepts the script (see basics.lua).
try('PERSIST', text)
try('UNLINK', unpack(KEYS))
try('TIME')
try('SET', text, 'a')
try('GET', text)
try('EXISTS', text)
try('SCAN', 0)
try('DEL', text)
try('SADD', set, 'a', 'b', 'c')
try('SREM', set, 'c')
try('SCARD', set)
try('SISMEMBER', set, 'a')
try('SMISMEMBER', set, 'a', 'c')
try('SSCAN', set, 0)
try('SMEMBERS', set)
try('SINTER', set, set)
try('SUNION', set, set)
try('HSET', hash, 'a', '1')
try('HSETNX', hash, 'b', '1')
try('HGET', hash, 'a')
try('HMGET', hash, 'a', 'b')
try('HGETALL', hash)
try('HKEYS', hash)
try('HLEN', hash)
try('HSCAN', hash, 0)
try('HDEL', hash, 'b')
try('ZADD', scored, 1, 'a', 2, 'b', 3, 'c')
try('ZREM', scored, 'c')
try('ZSCORE', scored, 'a')
try('ZMSCORE', scored, 'a', 'c')
try('ZCARD', scored)
try('ZCOUNT', scored, '-inf', '+inf')
try('ZRANGE', scored, 0, -1)
try('ZREVRANGE', scored, 0, -1)
try('ZRANK', scored, 'a')
try('ZREMRANGEBYRANK', scored, 0, 0)
try('BITFIELD', bits, 'SET', 'u1', 0, 1)
try('GETBIT', bits, 0)
try('PFADD', users, 'a')
try('PFCOUNT', users)
local dumped = try('DUMP', users)
if dumped then
  try('RESTORE', copy, 0, dumped)
end
local entry = try('XADD', stream, '*', 'a', '1') or '1-1'
try('XLEN', stream)
try('XRANGE', stream, '-', '+')
try('XREVRANGE', stream, '+', '-')
try('XGROUP', 'CREATE', stream, 'a', '0')
try('XGROUP', 'SETID', stream, 'a', '0')
try('XREADGROUP', 'GROUP', 'a', 'a', 'COUNT', 1, 'STREAMS', stream, '>')
try('XCLAIM', stream, 'a', 'a', 0, entry)
try('XAUTOCLAIM', stream, 'a', 'a', 0, '0')
try('XINFO', 'STREAM', stream)
try('XINFO', 'GROUPS', stream)
try('XACK', stream, 'a', entry)
try('XDEL', stream, entry)
try('XTRIM', stream, 'MAXLEN', '~', 100)
try('SPUBLISH', ARGV[1], '')
for _, key in ipairs(KEYS) do
  try('EXPIRE', key, ARGV[2])
end
try('UNLINK', unpack(KEYS))
return failed
