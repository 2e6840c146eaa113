-- New jobs that are taken in together: flat arguments of one command each, and who is notified afterwards.

local function new_pages(worker)
  local watched = { ids = {}, rids = {}, by = {} }
  return { jobs = {}, ids = {}, waiting = {}, letters = {}, keys = {}, lanes = {}, watched = watched, worker = worker }
end

-- The idle worker that claims a few plain jobs at once, which then never wait.
local function idle_worker(q, batch)
  if #batch > MOST_HANDED_OVER or H.keeps_payloads(q) then return nil end
  local task, spec
  for index = 1, #batch do
    local wanted = batch[index]
    if wanted.spec ~= spec or wanted.task ~= task then -- mostly all have the same
      task, spec = wanted.task, wanted.spec
      if not H.is_plain(wanted) or not H.can_start(spec) then return nil end
    end
  end
  return H.idle_worker(q, #batch)
end

local function note_watched(watched, id, rid, address)
  local number = #watched.ids + 1
  watched.ids[number], watched.rids[number], watched.by[number] = id, rid, address
end

local function note(pages, index, id, rid, record, letter, member)
  local at = 2 * index - 1
  pages.jobs[at], pages.jobs[at + 1], pages.ids[at], pages.ids[at + 1] = rid, record, id, rid
  pages.letters[index] = letter
  if member then
    local waiting = pages.waiting
    waiting[#waiting + 1], waiting[#waiting + 2] = 0, member
  end
end

-- What is to be put into the lane of a key, in which jobs came.
local function lane_in(pages, key)
  local lane = pages.lanes[key]
  if not lane then
    lane = {}
    pages.lanes[key], pages.keys[#pages.keys + 1] = lane, key
  end
  return lane
end

local function insert_plain(q, pages, index, run, wanted)
  local rid, worker, record, member = H.rid(run), pages.worker, nil, nil
  local id, task, payload, spec = wanted.id, wanted.task or '', wanted.payload, wanted.spec
  if worker then
    record = H.take(q, worker, rid, id, task, payload, spec)
  else
    record, member = H.enqueue_plain(q, rid, id, task, payload, spec)
  end
  local key = spec.key
  if key then
    local lane = lane_in(pages, key)
    lane[#lane + 1], lane[#lane + 2], member = 0, member, nil
  end
  note(pages, index, id, rid, record, LETTER.waiting, member)
end

local function insert_any(q, pages, index, run, wanted)
  local job = H.new_job(q, run, wanted)
  local key = job.more.key
  local simple = job.state == 'waiting' and not key
  note(pages, index, job.id, job.rid, H.encode(job), LETTER[job.state], simple and H.waiting_member(job))
  if not simple then
    H.put(q, job)
    if key then lane_in(pages, key) end
    if job.state == 'scheduled' then pages.soonest = math.min(pages.soonest or job.run_at, job.run_at) end
  end
  H.append(q, 'enqueue', job, H.keeps_payloads(q) and { payload = true } or nil)
end

function H.insert_all(q, batch)
  local worker = idle_worker(q, batch)
  local first, pages, cut = H.next_runs(q, #batch), new_pages(worker), not H.keeps_payloads(q)
  local watched, task, spec, insert = pages.watched, nil, nil, nil
  H.start_log(q)
  for index = 1, #batch do
    local wanted = batch[index]
    if wanted.spec ~= spec or wanted.task ~= task then
      task, spec = wanted.task, wanted.spec
      insert = cut and H.is_plain(wanted) and insert_plain or insert_any
    end
    insert(q, pages, index, first + index - 1, wanted)
    if spec.watcher then note_watched(watched, wanted.id, pages.ids[2 * index], spec.watcher) end
  end
  H.in_parts(pages.jobs, function(...) redis.call('HSET', q.key.jobs, ...) end)
  H.in_parts(pages.ids, function(...) redis.call('HSET', q.key.ids, ...) end)
  H.in_parts(pages.waiting, function(...) redis.call('ZADD', q.key.waiting, ...) end)
  if #pages.waiting > 0 then q.has.waiting = true end
  for key, lane in pairs(pages.lanes) do
    H.in_parts(lane, function(...) redis.call('ZADD', H.lane_of(q, key), ...) end)
  end
  H.watch_all(q, watched.ids, watched.rids, watched.by)
  local letters = table.concat(pages.letters)
  if worker then
    H.hand_over_taken(q, worker)
    return REPLY.enqueue({ status = 'new', first = first, letters = letters, taken = 1 })
  end
  H.recheck_each(q, pages.keys)
  local _, later = string.gsub(letters, LETTER.scheduled, '')
  if later < #batch then H.wake(q, #batch - later, #pages.keys == 0) end
  if pages.soonest then H.wake_for(q, pages.soonest) end
  return REPLY.enqueue({ status = 'new', first = first, letters = letters })
end
