-- The fast path of `insert_all` in lib/batch.lua, for one new plain job without a key, which most calls have.

local WAITING = LETTER.waiting

-- Whether the job is taken in so: nothing else holds its id, and it need not be looked at more closely.
function H.is_one_plain(q, batch)
  local wanted = batch[1]
  local spec = wanted.spec
  if batch[2] or spec.key or not H.is_plain(wanted) or H.keeps_payloads(q) then return false end
  return redis.call('HEXISTS', q.key.ids, wanted.id) == 0
end

function H.insert_one(q, wanted)
  local spec, id = wanted.spec, wanted.id
  local worker = H.can_start(spec) and H.idle_worker(q, 1) or nil
  local run = H.next_runs(q, 1)
  local rid = H.rid(run)
  H.start_log(q)
  local record, member
  if worker then
    record = H.take(q, worker, rid, id, wanted.task or '', wanted.payload, spec)
  else
    record, member = H.enqueue_plain(q, rid, id, wanted.task or '', wanted.payload, spec)
  end
  redis.call('HSET', q.key.jobs, rid, record)
  redis.call('HSET', q.key.ids, id, rid)
  if not worker then
    redis.call('ZADD', q.key.waiting, 0, member)
    q.has.waiting = true
  end
  if spec.watcher then H.watch(q, id, run, spec.watcher) end
  if worker then H.hand_over_taken(q, worker) else H.wake(q, 1, true) end
  return REPLY.enqueue({ status = 'new', first = run, letters = WAITING, taken = worker and 1 })
end
