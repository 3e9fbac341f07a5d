-- Reads the whereabouts of some users of some slices, as gateways claim.
-- KEYS  for each slice: claims, gateways
-- ARGV  for each slice: its users, as a list in JSON
-- Returns  an item for each user, with line feeds between: '<gateway> <live>' for each live, with commas between
local items, n = {}, 0
for i = 1, #ARGV do
  for place, words in ipairs(all_words(KEYS[2 * i - 1], KEYS[2 * i], cjson.decode(ARGV[i]))) do
    items[n + place] = words
  end
  n = #items
end
return table.concat(items, '\n')
