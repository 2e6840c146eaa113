-- release: active -> waiting | scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count release or stall (at its limit: fail), keep its place, merge the successor, append event

function H.release(q, job, entry)
  if not H.counted(q, job, entry.cause or 'release', 'release', entry.error) then return end
  local run_at = job.run_at
  if (entry.delay or 0) > 0 then run_at = q.now + entry.delay end
  H.put_back(q, job, 'release', run_at, { error = entry.error, cause = entry.cause == 'stall' and 'stall' or nil })
end
