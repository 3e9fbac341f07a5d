-- Serves the jobs that gateways share: a stream of jobs, and a hash of `<worker> <how far it got>`.

-- Tells whether a job belongs to a worker. `keys` begins with the stream and the hash, `argv` with the worker, the
-- group, the id of the job, and the job.
local function has_job(keys, argv)
  return string.match(redis.call('HGET', keys[2], argv[4]) or '', '^%S+') == argv[1]
end

-- Deletes a job that is done. Returns false if it belongs to another worker.
local function finish_job(keys, argv)
  if not has_job(keys, argv) then
    return false
  end
  redis.call('XACK', keys[1], argv[2], argv[3])
  redis.call('XDEL', keys[1], argv[3])
  redis.call('HDEL', keys[2], argv[4])
  return true
end
