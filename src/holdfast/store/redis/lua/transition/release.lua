-- release: active -> waiting | scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count release, stall or none (at limit: fail; of a stall, only alone), keep its place, make the stalled suspect, merge the successor, append event

function H.release(q, job, entry)
  local cause = entry.cause or 'release'
  local company = (entry.company or 1) > 1 and entry.company or nil
  if cause == 'worker' then
    job.more.spared = (job.more.spared or 0) + 1
  elseif not H.count_cause(q, job, cause, 'release', entry.error, company) then
    return
  end
  local run_at = job.run_at
  if (entry.delay or 0) > 0 then run_at = q.now + entry.delay end
  H.put_back(q, job, 'release', run_at, { error = entry.error, cause = cause ~= 'release' and cause or nil })
end
