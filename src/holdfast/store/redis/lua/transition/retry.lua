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
  if what.error then more.error, more.signature = what.error.text, what.error.signature or '-' end
  H.store(q, job)
  H.put(q, job)
  H.append(q, exit, job, event)
  H.merge_successor(q, job)
  H.wake_for(q, run_at)
end

-- The run has reached the limit of `cause` with an attempt that ended by `counts`.
local function end_at_limit(q, job, cause, count, exit, error, counts)
  local limit = LIMIT[cause]
  error = error or H.error(
    cause, 'TooMany' .. string.upper(string.sub(limit, 1, 1)) .. string.sub(limit, 2),
    string.format('%d %s, and no more are allowed', count, limit)
  )
  H.fail(q, job, { error = error, cause = cause, exit = exit, count = counts })
  return false
end

-- Return true when another attempt may follow, whatever ended this one; else it has failed.
function H.may_try_again(q, job, retry, cause, exit, error)
  local tried = H.tried(job.more)
  return not H.is_final(retry, 'attempts', tried) or end_at_limit(q, job, 'attempts', tried, exit, error, cause)
end

-- Return true when the run may come back: its cause is counted. At its limit it has failed instead. `company`: how many
-- jobs at most ran where it stalled; nil for a process that ran nothing else, and harmed no other job.
function H.count_cause(q, job, cause, exit, error, company)
  local _, retry = H.policy(q, job)
  local counter = COUNTER[cause]
  local count = (job.more[counter] or 0) + 1
  local final = H.is_final(retry, cause, count)
  if cause == 'stall' and company then
    company = H.company_after(count, H.given(retry.stalls), math.min(company, job.more.company or company))
    final = company == nil
    job.more.company = company
  end
  if final then return end_at_limit(q, job, cause, count, exit, error, cause) end
  if not H.may_try_again(q, job, retry, cause, exit, error) then return false end
  job.more[counter] = count
  return true, retry, count
end

-- The same for a snooze, which has no cause to count.
function H.count_snooze(q, job)
  local _, retry = H.policy(q, job)
  local count = (job.more.snoozes or 0) + 1
  if H.is_final(retry, 'snooze', count) then return end_at_limit(q, job, 'snooze', count, 'snooze', nil, 'snooze') end
  if not H.may_try_again(q, job, retry, 'snooze', 'snooze') then return false end
  job.more.snoozes = count
  return true
end

-- When a run comes back that says so itself; nil when it does not.
function H.own_time(q, entry)
  if entry.run_at then return math.max(entry.run_at, q.now) end
  return entry.delay and q.now + entry.delay
end

function H.retry(q, job, entry)
  local back, retry, count = H.count_cause(q, job, entry.cause, 'retry', entry.error)
  if not back then return end
  local run_at = H.own_time(q, entry) or q.now + H.backoff(q, retry, count)
  H.put_back(q, job, 'retry', run_at, { state = 'scheduled', error = entry.error, cause = entry.cause })
end
