-- Removes events that are too old.
-- KEYS  1 stream of events  2 audit trail
-- ARGV  1 how old an event becomes, s  2 how old an entry of the audit trail becomes, s
-- Returns  1
drop_older(KEYS[1], ARGV[1])
drop_older(KEYS[2], ARGV[2])
return 1
