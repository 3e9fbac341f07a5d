-- Reads a slice without holding anything in it.
-- KEYS  1 slice  2 gateways  [3 gateways' own leases]
-- ARGV  1 lease, ms
-- Says  {card, now in µs, silent gateways, each with its ms of silence…}
local now, micros = clock()
local reply = { redis.call('SCARD', KEYS[1]), whole(micros) }
for _, piece in ipairs(silent(redis.call('HGETALL', KEYS[2]), nil, tonumber(ARGV[1]), KEYS[3], now)) do
  reply[#reply + 1] = piece
end
return reply
