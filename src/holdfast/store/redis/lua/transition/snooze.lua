-- snooze: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count the snooze (at its limit: fail), set run_at, suspect it no longer, merge the successor, append event

function H.snooze(q, job, entry)
  if not H.count_snooze(q, job) then return end
  H.put_back(q, job, 'snooze', H.own_time(q, entry) or q.now, { state = 'scheduled' })
end
