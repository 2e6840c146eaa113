-- enqueue: nothing -> waiting | scheduled | blocked
-- guard: no run holds the id
-- effects: number the run, hold the id, append event, wake one worker

local EMPTY = { plain = true } -- the spec of a job with nothing unusual

function H.starts_at(q, spec)
  if spec.run_at then return math.max(spec.run_at, q.now) end
  return q.now + math.max(spec.delay or 0, 0)
end

-- A job that was just asked for, not yet in the store.
function H.new_job(q, run, wanted)
  local spec = wanted.spec
  local run_at = H.starts_at(q, spec)
  local more = {
    key = spec.key, envelope = spec.envelope, overrides = spec.overrides, ttl = spec.ttl,
  }
  if spec.dedup then
    more.dedup = spec.dedup.key
    more.dedup_until = spec.dedup.window and q.now + spec.dedup.window
  end
  return {
    rid = H.rid(run), run = run, id = wanted.id, task = wanted.task, payload = wanted.payload,
    state = run_at > q.now and 'scheduled' or 'waiting', priority = spec.priority or 0,
    enqueued_at = q.now, run_at = run_at, more = more,
  }
end

-- The job is in the store and holds its id; lanes and workers do not know yet.
function H.insert(q, job, transition, cause)
  H.store(q, job)
  redis.call('HSET', q.key.ids, job.id, job.rid)
  H.put(q, job)
  if job.more.dedup then H.note_dedup(q, job) end
  H.append(q, transition, job, { cause = cause, payload = H.keeps_payloads(q) })
end

function H.next_runs(q, count)
  return redis.call('HINCRBY', q.key.queue, 'run', count) - count + 1
end

-- Begin a new run of a free id, and wake a worker for it.
function H.begin(q, wanted, status)
  local job = H.new_job(q, H.next_runs(q, 1), wanted)
  local spec, failed = wanted.spec, nil
  if spec.blockers then failed = H.wait_for(q, job, spec.blockers, spec.policy) end
  H.insert(q, job, status == 'requeued' and 'requeue' or 'enqueue')
  H.recheck(q, job.more.key)
  if job.state ~= 'blocked' then H.wake_for(q, job.run_at) end
  if failed then
    H.give_up(q, failed)
    job.state = spec.policy == 'cancel' and 'cancelled' or 'failed'
    local over = H.load(q, job.rid)
    job.more.error = over and over.more.error
  end
  return job
end

local function answer(status, job)
  local state = H.outcome(job)
  return { status = status, id = job.id, run = job.run, state = state, result = job.result, error = state == 'failed' and job.more.error }
end

local function as_it_is(job)
  return answer(H.outcome(job) == 'completed' and 'completed' or 'duplicate', job)
end

local function deduplicated(q, wanted)
  local spec = wanted.spec.dedup
  local text = redis.call('HGET', q.key.dedup, H.dedup_field(wanted.task, spec.key))
  local excluded = {}
  for _, id in ipairs(spec.exclude or EMPTY) do excluded[id] = true end
  local runs = H.unpacked(text) or {}
  for index = #runs, math.max(1, #runs - MOST_SAME_DEDUP + 1), -1 do
    local job = H.load(q, H.rid(runs[index]))
    if job then
      local state = H.outcome(job)
      local over = FINISHED[state] and (spec.scope == 'incomplete' or state == 'cancelled')
      local old = spec.window and job.enqueued_at + spec.window <= q.now
      if not (H.is_gone(q, job) or over or old or excluded[H.long(job.id)]) then return job end
    end
  end
  for _, id in ipairs(H.successors_under(q, wanted.task, spec.key)) do
    local new = H.successor(q, id)
    local old = new and spec.window and new.enqueued_at + spec.window <= q.now
    if new and not (old or excluded[H.long(id)]) then return { id = id, run = new.run, state = 'active', more = {} } end
  end
end

local function one(q, wanted, conflict)
  if wanted.spec.dedup then
    local found = deduplicated(q, wanted)
    if found then return as_it_is(found) end
  end
  local existing = H.holding(q, wanted.id)
  if not existing then return answer('queued', H.begin(q, wanted, 'queued')) end
  local state = H.outcome(existing)
  if conflict.on_conflict == 'update' then
    if existing.more.chain then return answer('refused', existing) end
    if state == 'active' then return H.await_successor(q, existing, wanted, conflict) end
    if not FINISHED[state] then
      H.update(q, existing, H.as_update(q, existing.run, wanted, conflict))
      return answer('updated', existing)
    end
  elseif not (state == 'failed' and conflict.on_failed == 'requeue') then
    return as_it_is(existing)
  end
  H.free_id(q, existing)
  local status = state == 'failed' and 'requeued' or 'queued'
  local job = H.begin(q, wanted, status)
  existing.more.requeued_as = job.run
  H.store(q, existing)
  return answer(status, job)
end

-- Take in the whole batch at once; nil, with nothing changed, when one of it needs a closer look.
local function all_new(q, batch)
  if H.is_one_plain(q, batch) then return H.insert_one(q, batch[1]) end
  local seen, ids = {}, {}
  for index = 1, #batch do
    local wanted = batch[index]
    local id, spec = wanted.id, wanted.spec
    if spec.dedup or spec.blockers or seen[id] then return nil end
    seen[id], ids[index] = true, id
  end
  local free = true
  H.in_parts(ids, function(...)
    local rids = redis.call('HMGET', q.key.ids, ...)
    for index = 1, #rids do
      if rids[index] then free = false end
    end
  end)
  if not free then return nil end
  return H.insert_all(q, batch)
end

function H.enqueue(q, batch, conflict)
  local reply = all_new(q, batch)
  if reply then return reply end
  local answers = {}
  for index, wanted in ipairs(batch) do
    local its = one(q, wanted, conflict)
    if wanted.spec.watcher and not FINISHED[its.state] then H.watch(q, its.id, its.run, wanted.spec.watcher) end
    answers[index] = REPLY.answer_fields(its)
  end
  return REPLY.enqueue({ status = q.posted and 'posted' or 'mixed', answers = answers })
end

local function spec_of(text)
  return text == '' and EMPTY or H.spec(text)
end

local function take_in(q, call, batch)
  local reply = H.enqueue(q, batch, H.json(call.conflict))
  H.bound_log(q, call.history, call.count)
  return reply
end

-- The jobs that a call asks for, from here on, are taken in, or answered by those that hold their ids.
function H.take_in(q, call, args, at)
  local batch, job = {}, TAKES.job_arguments
  for index = 1, call.count do
    local wanted = job.read(args, at)
    wanted.spec = spec_of(wanted.spec)
    batch[index] = wanted
    at = at + job.size
  end
  return take_in(q, call, batch)
end

local function take_in_alike(q, call, args, at)
  local batch, task, spec, size = {}, call.task, spec_of(call.spec), TAKES.alike_arguments.size
  for index = 1, call.count do
    batch[index] = { id = args[at], task = task, payload = args[at + 1], spec = spec }
    at = at + size
  end
  return take_in(q, call, batch)
end

-- serve enqueue: now, queue, request, history, conflict, count
--   then, over and over, job_arguments: id, task, payload, spec
--   reply: status, first, letters, taken, answers
--   in it, answer_fields: status, id, run, state, result, error
H.serve('enqueue', function(call, keys, args, at)
  local q = H.opened(keys[1], call.now, call.queue)
  return H.once(q, call.request, function() return H.take_in(q, call, args, at) end)
end)

-- serve enqueue_alike: now, queue, request, history, conflict, count, task, spec
--   then, over and over, alike_arguments: id, payload
--   reply: status, first, letters, taken, answers
--   in it, answer_fields: status, id, run, state, result, error
H.serve('enqueue_alike', function(call, keys, args, at)
  local q = H.opened(keys[1], call.now, call.queue)
  return H.once(q, call.request, function() return take_in_alike(q, call, args, at) end)
end)
