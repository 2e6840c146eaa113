-- update: blocked | scheduled | waiting -> waiting | scheduled | blocked
-- guard: the run has not started; an active one gets a successor instead
-- effects: change payload, run_at and counters by the update flags, append event

local TAKEN = { 'task', 'priority', 'payload' }
local TAKEN_MORE = { 'key', 'ttl', 'overrides', 'headers' }

-- What a dispatch brings to a run that is there already, and which of it counts.
function H.as_update(q, run, wanted, conflict)
  local spec = wanted.spec
  local new = {
    run = run, id = wanted.id, task = wanted.task, payload = wanted.payload, priority = spec.priority or 0,
    run_at = H.starts_at(q, spec), enqueued_at = q.now, key = spec.key, ttl = spec.ttl,
    overrides = spec.overrides, headers = spec.headers, update_payload = conflict.update_payload,
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

function H.successor(q, id)
  if not H.any(q, 'successors') then return nil end
  local text = redis.call('HGET', q.key.successors, id)
  local new = H.unpacked(text)
  if new and type(new.run) == 'number' and type(new.run_at) == 'number' and type(new.enqueued_at) == 'number'
    and type(new.payload) == 'string' then
    return new
  end
  if text and not q.looks then
    redis.call('HDEL', q.key.successors, id)
    H.note(q, 'successor', id, 0, 'it cannot be read, and is dropped')
  end
end

-- Successors by deduplication key, so that they are found without looking at all of them.
local function ids_under(q, new)
  local field = 'next ' .. H.dedup_field(new.task, new.dedup)
  local text = redis.call('HGET', q.key.dedup, field)
  return field, H.unpacked(text) or {}
end

function H.forget_successor(q, id, new)
  redis.call('HDEL', q.key.successors, id)
  if not new.dedup then return end
  local field, ids = ids_under(q, new)
  local kept = {}
  for _, each in ipairs(ids) do
    if each ~= id then kept[#kept + 1] = each end
  end
  if #kept > 0 then redis.call('HSET', q.key.dedup, field, cmsgpack.pack(kept)) else redis.call('HDEL', q.key.dedup, field) end
end

function H.keep_successor(q, id, earlier, new)
  if earlier then H.forget_successor(q, id, earlier) end
  redis.call('HSET', q.key.successors, id, cmsgpack.pack(new))
  q.has.successors = true
  if not new.dedup then return end
  local field, ids = ids_under(q, new)
  ids[#ids + 1] = id
  redis.call('HSET', q.key.dedup, field, cmsgpack.pack(ids))
end

function H.successors_under(q, task, key)
  local _, ids = ids_under(q, { task = task, dedup = key })
  return ids
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
function H.succeed_later(q, active, wanted, conflict)
  local earlier = H.successor(q, active.id)
  local new = H.as_update(q, earlier and earlier.run or H.next_runs(q, 1), wanted, conflict)
  if earlier then new = combined(earlier, new) end
  H.keep_successor(q, active.id, earlier, new)
  H.append(q, 'update', active, { cause = 'successor' })
  return { 'successor', active.id, new.run, 'active', false, false }
end

-- A successor as a run of its own, in no state yet.
function H.as_run(q, id, new)
  return {
    rid = H.rid(new.run), run = new.run, id = id, task = new.task, payload = new.payload, priority = new.priority,
    enqueued_at = new.enqueued_at, run_at = new.run_at,
    more = {
      key = new.key, headers = new.headers, overrides = new.overrides, ttl = new.ttl, dedup = new.dedup,
      dedup_until = new.dedup_until,
    },
  }
end

-- A finished run's successor, if it has one, is the id's next run.
function H.succeed(q, job)
  local new = H.successor(q, job.id)
  if not new then return end
  H.forget_successor(q, job.id, new)
  H.free_id(q, job)
  H.store(q, job)
  local next_job = H.as_run(q, job.id, new)
  next_job.run_at = math.max(new.run_at, q.now)
  next_job.state = next_job.run_at > q.now and 'scheduled' or 'waiting'
  H.insert(q, next_job, 'enqueue', 'successor')
  H.recheck(q, new.key)
  H.wake_for(q, next_job.run_at)
end

-- A run that came back from active has merged with its successor, if it has one.
function H.absorb(q, job)
  local new = H.successor(q, job.id)
  if not new then return end
  H.forget_successor(q, job.id, new)
  H.repoint(q, new.run, job.run)
  H.update(q, job, new, 'successor')
end
