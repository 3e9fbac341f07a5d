-- The node's time.
-- KEYS  1 any key of the node's
-- Returns  now in ms
return whole((clock()))
