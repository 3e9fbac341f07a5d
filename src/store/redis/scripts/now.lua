-- The node's time.
-- KEYS  1 any key of the node's
-- Says  now in ms
return whole((clock()))
