-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, start the successor, append event, tell waiters

-- How long a run that ends now holds its id, and when it is gone.
function H.end_times(q, job, ttl)
  local more, kept = job.more, H.kept_ms(q, job.state)
  ttl = ttl or more.ttl or H.result_ttl(q)
  more.finished_at, more.free_at = q.now, q.now + ttl
  more.expires_at = math.max(q.now + math.max(ttl, kept), more.dedup_until or 0)
end

-- The run is over, in its new state; its successor starts, and its waiters hear of it.
function H.over(q, job)
  call('ZADD', q.key[job.state], job.more.expires_at, job.rid)
  if job.state == 'failed' then call('ZADD', q.key.letters, job.run, job.rid) end
  H.store(q, job)
  H.succeed(q, job)
  H.tell_watchers(q, job, job.state)
end

function H.complete(q, job, entry)
  H.let_go(q, job.rid)
  local event = H.ending(q, job)
  job.state, job.result = 'completed', entry.body
  job.more.exit, job.more.error = 'complete', nil
  H.end_times(q, job, entry.ttl)
  H.append(q, 'complete', job, event)
  H.over(q, job)
end
