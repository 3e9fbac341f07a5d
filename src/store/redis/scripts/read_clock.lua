-- Reads the node's clock.
-- KEYS  1 any key of the node
-- Returns  now in ms
return whole((clock()))
