-- Successors: the dispatch that waits, by its id, for the active run to end.

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

-- A successor as a run of its own, in no state yet.
function H.as_run(q, id, new)
  return {
    rid = H.rid(new.run), run = new.run, id = id, task = new.task, payload = new.payload, priority = new.priority,
    enqueued_at = new.enqueued_at, run_at = new.run_at,
    more = {
      key = new.key, envelope = new.envelope, overrides = new.overrides, ttl = new.ttl, dedup = new.dedup,
      dedup_until = new.dedup_until,
    },
  }
end

-- The successor of a run. A chain that went on anew may have lost its id to another run: the successor is that one's.
function H.successor_of(q, job)
  local new = H.successor(q, job.id)
  local holder = new and redis.call('HGET', q.key.ids, job.id)
  if holder and holder ~= job.rid then return nil end
  return new
end

-- A finished run's successor, if it has one, is the id's next run.
function H.start_successor(q, job)
  local new = H.successor_of(q, job)
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
function H.merge_successor(q, job)
  local new = H.successor(q, job.id)
  if not new then return end
  H.forget_successor(q, job.id, new)
  H.repoint(q, new.run, job.run)
  H.update(q, job, new, 'successor')
end

-- A successor that was cancelled is a run of its own, over before it began.
local function bury(q, id, new)
  local job = H.as_run(q, id, new)
  job.state, job.more.exit, job.more.past = 'cancelled', 'cancel', true
  job.more.dedup, job.more.dedup_until = nil, nil
  H.end_times(q, job)
  job.more.free_at = q.now
  H.to_past(q, job)
  redis.call('ZADD', q.key.cancelled, job.more.expires_at or '+inf', job.rid)
  H.store(q, job)
  H.append(q, 'cancel', job, { cause = 'successor' })
  H.notify_watchers(q, job, 'cancelled')
end

function H.drop_successor(q, job, note)
  local new = H.successor_of(q, job)
  if not new then return false end
  H.forget_successor(q, job.id, new)
  H.resolve_dependants(q, H.rid(new.run), { state = 'cancelled' })
  if note then
    bury(q, job.id, new)
  else
    H.notify_watchers(q, { id = job.id, run = new.run, more = {} }, 'cancelled')
  end
  return true
end
