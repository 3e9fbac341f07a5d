-- Adds how many came to gateways that are gone, and left them, to the sums of all that are gone. Does so once: whose
-- totals are in the sums is named no more.
-- KEYS  1 record
-- ARGV  1 epoch  2… gateways
-- Returns  1 if any was named, or 0
local state, epoch, known = unpack(redis.call('HMGET', KEYS[1], 'state', 'epoch', 'arrivals'))
if state ~= 'open' or epoch ~= ARGV[1] then
  return 0
end
known = stored_arrivals(KEYS[1], known)
local read, gone, names = read_arrivals(known), {}, {}
for i = 2, #ARGV do
  gone[ARGV[i]] = true
end
for _, name in ipairs(read.names) do
  if gone[name] then
    read.joins, read.leaves = read.joins + read.came[name], read.leaves + read.left[name]
  else
    names[#names + 1] = name
  end
end
if #names == #read.names then
  return 0
end
-- It follows the clock, and grows even if the clock goes back.
read.names, read.at = names, math.max(read.at + 1, (clock()))
store_arrivals(KEYS[1], write_arrivals(read), known)
return 1
