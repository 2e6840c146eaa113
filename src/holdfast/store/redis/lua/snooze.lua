-- snooze: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, set run_at, suspect it no longer, merge the successor, append event

function H.snooze(q, job, entry)
  local run_at = entry.run_at and math.max(entry.run_at, q.now) or q.now + (entry.delay or 0)
  H.put_back(q, job, 'snooze', run_at, { state = 'scheduled' })
end
