-- retry: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count the failure or timeout (at its limit: fail), back off, suspect it no longer, merge the successor, append event

-- The run waits for its next attempt, at its time or in its old place, merged with its successor.
function H.put_back(q, job, exit, run_at, what)
  local more = job.more
  local event = H.ending(q, job, what.error)
  event.cause = what.cause
  H.let_go(q, job.rid)
  job.state, job.run_at = what.state or (run_at > q.now and 'scheduled' or 'waiting'), run_at
  more.exit, more.ready_at = exit, run_at < q.now and q.now or nil
  if exit == 'retry' or exit == 'snooze' then more.company = nil end -- it came to an end
  if what.error then more.error = what.error.text end
  H.store(q, job)
  H.put(q, job)
  H.append(q, exit, job, event)
  H.absorb(q, job)
  H.wake_for(q, run_at)
end

-- Return true when the run may come back: its cause is counted. At its limit it has failed instead. `company`: how many
-- jobs at most ran where it stalled; nil for a process that ran nothing else, and harmed nobody else.
function H.counted(q, job, cause, exit, error, company)
  local _, retry = H.policy(q, job)
  local counter = COUNTER[cause]
  local count = (job.more[counter] or 0) + 1
  local final = H.is_final(retry, cause, count)
  if cause == 'stall' and company then
    company = H.company_after(count, H.given(retry.stalls), math.min(company, job.more.company or company))
    final = company == nil
    job.more.company = company
  end
  if final then
    error = error or H.error(
      cause, 'TooMany' .. string.upper(string.sub(counter, 1, 1)) .. string.sub(counter, 2),
      string.format('%d %s, and no more are allowed', count, counter)
    )
    H.fail(q, job, { error = error, cause = cause, exit = exit, count = true })
    return false
  end
  job.more[counter] = count
  return true, retry, count
end

function H.retry(q, job, entry)
  local back, retry, count = H.counted(q, job, entry.cause, 'retry', entry.error)
  if not back then return end
  local run_at = q.now + H.backoff(q, retry, count)
  H.put_back(q, job, 'retry', run_at, { state = 'scheduled', error = entry.error, cause = entry.cause })
end
