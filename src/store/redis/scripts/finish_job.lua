-- Deletes a job that is done.
-- KEYS  1 stream of jobs  2 their progress
-- ARGV  1 worker  2 the group  3 id  4 the job
-- Returns  1, or 0 if the job belongs to another worker
return finish_job(KEYS, ARGV) and 1 or 0
