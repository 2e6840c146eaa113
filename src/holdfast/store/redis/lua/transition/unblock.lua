-- unblock: blocked -> waiting | scheduled
-- guard: its last open blocker is done
-- effects: raise run_at to now, append event, wake one worker

function H.unblock(q, job)
  H.take_away(q, job)
  job.run_at = math.max(job.run_at, q.now)
  job.state = job.run_at > q.now and 'scheduled' or 'waiting'
  H.store(q, job)
  H.put(q, job)
  H.append(q, 'unblock', job)
  H.recheck(q, job.more.key)
  H.wake_for(q, job.run_at)
end
