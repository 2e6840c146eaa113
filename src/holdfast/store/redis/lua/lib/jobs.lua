-- The records of a queue, and where jobs wait: by priority, run_at and run (suspects among them apart), or by run_at.

-- Return the record of a run: nil when it is gone. One that is nothing we ever wrote is set aside as if it were.
function H.load(q, rid)
  local raw = redis.call('HGET', q.key.jobs, rid)
  if not raw then return nil end
  local fine, job = pcall(H.decode, rid, raw)
  if fine then return job end
  H.set_aside(q, rid, raw)
  return nil
end

-- Jobs with an error are found by its signature: `-` for one that has none, of which clients know it.
function H.sign(q, job, signature)
  if job.signed == signature then return end
  if job.signed then redis.call('ZREM', q.key.signatures, job.signed .. job.rid) end
  if signature then redis.call('ZADD', q.key.signatures, 0, signature .. job.rid) end
  job.signed = signature
end

function H.store(q, job)
  if not job.more.error then job.more.signature = nil end
  if job.signed ~= job.more.signature then H.sign(q, job, job.more.signature) end
  redis.call('HSET', q.key.jobs, job.rid, H.encode(job))
end

function H.waiting_member(job)
  return struct.pack('>I2I7I6', HIGHEST_PRIORITY - job.priority, job.run_at, job.run)
end

function H.lane_of(q, key)
  if key then return q.key.lane .. key end
  return q.key.waiting
end

function H.put(q, job)
  if job.state == 'waiting' and job.more.company then
    redis.call('ZADD', q.key.suspects, 0, H.waiting_member(job))
    q.has.suspects = true
  elseif job.state == 'waiting' then
    redis.call('ZADD', H.lane_of(q, job.more.key), 0, H.waiting_member(job))
    if not job.more.key then q.has.waiting = true end
  elseif job.state == 'scheduled' then
    redis.call('ZADD', q.key.scheduled, job.run_at, job.rid)
    q.has.scheduled = true
  elseif job.state == 'blocked' then
    redis.call('ZADD', q.key.blocked, job.run, job.rid)
  end
end

function H.take_away(q, job)
  if job.state == 'waiting' then
    redis.call('ZREM', job.more.company and q.key.suspects or H.lane_of(q, job.more.key), H.waiting_member(job))
  elseif job.state == 'scheduled' then
    redis.call('ZREM', q.key.scheduled, job.rid)
  elseif job.state == 'blocked' then
    redis.call('ZREM', q.key.blocked, job.rid)
  end
end
