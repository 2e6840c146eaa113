-- enqueue: nothing -> waiting | scheduled | blocked
-- guard: no run holds the id
-- effects: number the run, hold the id, append event, wake one worker

local EMPTY = {}

function H.starts_at(q, spec)
  if spec.run_at then return math.max(spec.run_at, q.now) end
  return q.now + math.max(spec.delay or 0, 0)
end

-- A job that was just asked for, not yet in the store.
function H.new_job(q, run, wanted)
  local spec = wanted.spec
  local run_at = H.starts_at(q, spec)
  local more = {
    key = spec.key, headers = spec.headers, overrides = spec.overrides, ttl = spec.ttl,
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

-- A new run of a free id is there, and somebody knows.
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
  end
  return job
end

local function answer(status, job)
  local state = H.outcome(job)
  return { status, job.id, job.run, state, job.result or false, state == 'failed' and job.more.error or false }
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
  for index = #runs, math.max(1, #runs - 49), -1 do
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
    if state == 'active' then return H.succeed_later(q, existing, wanted, conflict) end
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
  local seen, ids = {}, {}
  for index, wanted in ipairs(batch) do
    if wanted.spec.dedup or wanted.spec.blockers or seen[wanted.id] then return nil end
    seen[wanted.id] = true
    ids[index] = wanted.id
  end
  local free = true
  H.in_parts(ids, function(...)
    for _, rid in ipairs(redis.call('HMGET', q.key.ids, ...)) do
      if rid then free = false end
    end
  end)
  if not free then return nil end
  return H.insert_all(q, batch)
end

-- What is written for a whole batch: flat arguments of one command each, and what is told afterwards.
local function new_pages(taker)
  return { jobs = {}, ids = {}, waiting = {}, letters = {}, keys = {}, watched = {}, taker = taker }
end

-- Whoever has nothing to do takes a few plain jobs at once, which then never wait.
local function taker_of(q, batch)
  if #batch > MOST_GIVEN or H.keeps_payloads(q) then return nil end
  for _, wanted in ipairs(batch) do
    if not wanted.plain or wanted.spec.rest then return nil end
  end
  return H.taker(q, #batch)
end

local function note(pages, index, id, rid, record, letter, place)
  local at = 2 * index - 1
  pages.jobs[at], pages.jobs[at + 1], pages.ids[at], pages.ids[at + 1] = rid, record, id, rid
  pages.letters[index] = letter
  if place then
    local waiting = pages.waiting
    waiting[#waiting + 1], waiting[#waiting + 2] = 0, place
  end
end

local function insert_plain(q, pages, index, run, wanted)
  local rid, taker = H.rid(run), pages.taker
  local record, place = H.enqueue_plain(q, rid, wanted.id, wanted.task or '', wanted.payload, wanted.spec.rest)
  if taker then record, place = H.take(q, taker, rid, record), nil end
  note(pages, index, wanted.id, rid, record, 'w', place)
end

local function insert_any(q, pages, index, run, wanted)
  local job = H.new_job(q, run, wanted)
  local key = job.more.key
  local simple = job.state == 'waiting' and not key
  note(pages, index, job.id, job.rid, H.encode(job), LETTER[job.state], simple and H.place(job))
  if not simple then
    H.put(q, job)
    if key then pages.keys[key] = true end
    if job.state == 'scheduled' then pages.soonest = math.min(pages.soonest or job.run_at, job.run_at) end
  end
  H.append(q, 'enqueue', job, H.keeps_payloads(q) and { payload = true } or nil)
end

function H.insert_all(q, batch)
  local taker = taker_of(q, batch)
  local first, pages, cut = H.next_runs(q, #batch), new_pages(taker), not H.keeps_payloads(q)
  H.start_log(q)
  for index, wanted in ipairs(batch) do
    local run, watcher = first + index - 1, wanted.spec.watcher
    local insert = cut and wanted.plain and insert_plain or insert_any
    insert(q, pages, index, run, wanted)
    if watcher then pages.watched[#pages.watched + 1] = { wanted.id, run, watcher } end
  end
  H.in_parts(pages.jobs, function(...) redis.call('HSET', q.key.jobs, ...) end)
  H.in_parts(pages.ids, function(...) redis.call('HSET', q.key.ids, ...) end)
  H.in_parts(pages.waiting, function(...) redis.call('ZADD', q.key.waiting, ...) end)
  if #pages.waiting > 0 then q.has.waiting = true end
  H.watch_all(q, pages.watched)
  if taker then
    H.taken(q, taker)
    return { 'new', first, table.concat(pages.letters), 'taken' }
  end
  for key in pairs(pages.keys) do H.recheck(q, key) end
  local letters = table.concat(pages.letters)
  local _, later = string.gsub(letters, 's', '')
  if later < #batch then H.wake(q, #batch - later, not next(pages.keys)) end
  if pages.soonest then H.wake_for(q, pages.soonest) end
  return { 'new', first, letters }
end

function H.enqueue(q, batch, conflict)
  local answers = all_new(q, batch)
  if answers then return answers end
  answers = { 'mixed' }
  for index, wanted in ipairs(batch) do
    local reply = one(q, wanted, conflict)
    if wanted.spec.watcher and not FINISHED[reply[4]] then H.watch(q, reply[2], reply[3], wanted.spec.watcher) end
    answers[index + 1] = reply
  end
  if q.posted then answers[1] = 'posted' end
  return answers
end

-- The next `count` jobs of the arguments are taken in, or answered by those that hold their ids.
function H.take_in(q, arg, count, conflict, history)
  local batch = {}
  for index = 1, count do
    local id, task, payload, spec = arg(), H.optional(arg()), arg(), arg()
    spec = spec == '' and EMPTY or H.json(spec)
    if spec.plain and spec.ttl and not spec.rest then spec.rest = H.rest({ ttl = spec.ttl }) end -- once for many
    local plain = (spec == EMPTY or spec.plain) and (not task or #task < 256)
    batch[index] = { id = id, task = task, payload = payload, spec = spec, plain = plain }
  end
  local answers = H.enqueue(q, batch, conflict)
  H.bound_log(q, history, count)
  return answers
end

H.serve('enqueue', function(keys, args)
  local arg = H.reader(args)
  local now, name, request, history = H.now(arg()), arg(), arg(), tonumber(arg())
  local conflict, count = H.json(arg()), tonumber(arg())
  local q = H.opened(keys[1], now, name)
  return H.once(q, request, function() return H.take_in(q, arg, count, conflict, history) end)
end)
