-- update: blocked | scheduled | waiting -> waiting | scheduled | blocked
-- guard: the run has not started; an active one gets a successor instead
-- effects: change payload, run_at and counters by the update flags, append event

local TAKEN = { 'task', 'priority', 'payload' }
local TAKEN_MORE = { 'key', 'ttl', 'overrides', 'envelope' }

-- What a dispatch brings to a run that is there already, and which of it counts.
function H.as_update(q, run, wanted, conflict)
  local spec = wanted.spec
  local new = {
    run = run, id = wanted.id, task = wanted.task, payload = wanted.payload, priority = spec.priority or 0,
    run_at = H.starts_at(q, spec), enqueued_at = q.now, key = spec.key, ttl = spec.ttl,
    overrides = spec.overrides, envelope = spec.envelope, update_payload = conflict.update_payload,
    update_run_at = conflict.update_run_at, reset_counts = conflict.reset_counts,
  }
  if spec.dedup then
    new.dedup = spec.dedup.key
    new.dedup_until = spec.dedup.window and q.now + spec.dedup.window
  end
  return new
end

local function new_run_at(current, new)
  if new.update_run_at == 'never' then return current end
  if new.update_run_at == 'if_later' then return math.max(current, new.run_at) end
  if new.update_run_at == 'if_earlier' then return math.min(current, new.run_at) end
  return new.run_at
end

-- A run that is not active has taken over what an update or a successor brings.
function H.update(q, job, new, cause)
  local more = job.more
  local old_key = more.key
  H.take_away(q, job)
  local run_at = math.max(new_run_at(job.run_at, new), 0)
  if job.state ~= 'blocked' then
    job.state = run_at > q.now and 'scheduled' or 'waiting'
    -- A waiting job keeps its place unless its time was really changed.
    if job.state == 'waiting' and run_at ~= job.run_at then run_at = math.max(run_at, q.now) end
  end
  job.run_at, more.ready_at = run_at, nil
  if new.dedup or new.update_payload then H.forget_dedup(q, job) end
  if new.update_payload then
    for _, name in ipairs(TAKEN) do job[name] = new[name] end
    for _, name in ipairs(TAKEN_MORE) do more[name] = new[name] end
    job.checkpoint, more.progress = nil, nil
  end
  if new.reset_counts then
    more.failures, more.stalls, more.timeouts, more.releases, more.error, more.company = nil, nil, nil, nil, nil, nil
    more.snoozes, more.spared = nil, more.attempts
  end
  if new.dedup then more.dedup, more.dedup_until = new.dedup, new.dedup_until end
  if more.dedup then H.note_dedup(q, job) end
  more.absorbed_to = math.max(more.absorbed_to or 0, new.run, job.run)
  if more.absorbed_to == job.run then more.absorbed_to = nil end
  H.store(q, job)
  H.put(q, job)
  H.append(q, 'update', job, { cause = cause, payload = new.update_payload and H.keeps_payloads(q) })
  H.recheck(q, old_key)
  if more.key ~= old_key then H.recheck(q, more.key) end
  if job.state ~= 'blocked' then H.wake_for(q, run_at) end
end

-- The successor after a further dispatch: as an update of the first by the second's flags.
local function combined(earlier, later)
  local both = {}
  for name, value in pairs(later) do both[name] = value end
  both.run, both.enqueued_at = earlier.run, earlier.enqueued_at
  if not later.update_payload then
    for _, name in ipairs(TAKEN) do both[name] = earlier[name] end
    for _, name in ipairs(TAKEN_MORE) do both[name] = earlier[name] end
  end
  if not later.dedup then both.dedup, both.dedup_until = earlier.dedup, earlier.dedup_until end
  both.update_payload = earlier.update_payload or later.update_payload
  both.reset_counts = earlier.reset_counts or later.reset_counts
  both.run_at = new_run_at(earlier.run_at, later)
  if later.update_run_at == 'never' or earlier.update_run_at == 'always' then
    both.update_run_at = earlier.update_run_at
  end
  return both
end

-- The active run has a successor; a further dispatch updates that one by its own flags.
function H.await_successor(q, active, wanted, conflict)
  local earlier = H.successor(q, active.id)
  local new = H.as_update(q, earlier and earlier.run or H.next_runs(q, 1), wanted, conflict)
  if earlier then new = combined(earlier, new) end
  H.keep_successor(q, active.id, earlier, new)
  H.append(q, 'update', active, { cause = 'successor', envelope = new.envelope or false })
  return { status = 'successor', id = active.id, run = new.run, state = 'active' }
end
