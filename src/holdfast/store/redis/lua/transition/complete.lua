-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, continue or end the chain, start the successor, append event, tell waiters

-- The run is over, in its new state; so is its chain, and those who wait for it are notified.
function H.finish(q, job)
  redis.call('ZADD', q.key[job.state], job.more.expires_at or '+inf', job.rid)
  if job.state == 'failed' then redis.call('ZADD', q.key.letters, job.run, job.rid) end
  H.store(q, job)
  H.abandon(q, job)
  if not job.more.chain then return H.chain_over(q, job, job.state) end
  H.end_chain(q, job, job.state)
  H.notify_watchers(q, job, job.state)
end

function H.complete(q, job, entry)
  if entry.next then return H.continue_chain(q, job, entry) end
  H.let_go(q, job.rid)
  local event = H.ending(q, job)
  job.state, job.result = 'completed', entry.body
  job.more.exit, job.more.error = 'complete', nil
  H.end_times(q, job, entry.ttl)
  H.append(q, 'complete', job, event)
  H.finish(q, job)
end
