-- The fast path of `hand_over_to` in notify/hand_over.lua: an idle worker claims new plain jobs before they ever wait.

local bytes, append = H.bytes, H.append_bytes
local ENQUEUED, CLAIMED = bytes.ENQUEUED, bytes.CLAIMED

local LIMITS = { 'paused', 'concurrency', 'rate' }

-- Whether `claim_plain` takes a new plain job: nothing is in its record but an envelope that can be read.
function H.can_start(spec)
  if spec.key then return false end -- its key may have no room, or others of it may be in front
  return not spec.rest or (spec.envelope and H.bytes.is_sound(spec.envelope))
end

-- The worker that may have so many new jobs before they ever wait: it is idle, nothing is in front of them, and there is
-- no limit. Nil, with nothing changed, when there is none.
function H.idle_worker(q, count)
  if count > MOST_HANDED_OVER then return nil end
  for _, name in ipairs(LIMITS) do
    if H.setting(q, name) then return nil end
  end
  local id, score = unpack(redis.call('ZRANGE', q.key.parked, -1, -1, 'WITHSCORES'))
  if not id then
    q.has.parked = false -- so that nobody need be woken, either
    return nil
  end
  score = tonumber(score)
  if score < count or not H.may_hand_over(score) then return nil end
  local session = H.session(q, id)
  if not H.can_take(q, session) then return nil end
  if redis.call('EXISTS', q.key.waiting, q.key.scheduled, q.key.lanes) > 0 then return nil end
  return { id = id, session = session, room = math.floor(score), count = 0, rids = {}, holders = {}, parts = {}, size = 0 }
end

-- What else jobs have in common that are alike (`kind_of_new`) and taken by one worker.
local function taken_kind(q, worker, kind)
  kind.taken_by = worker.id
  local made, size = bytes.session(worker.id), #kind.head + kind.id_size + #kind.task + kind.payload_size
  kind.size = size
  kind.record = bytes.new_started(kind.head, bytes.now(q), made.held)
  kind.claimed = bytes.claimed_at_once(q, worker.id, kind.task)
  kind.handed = H.handed_head(H.task_timeout(q, kind.task), size) .. kind.head
  kind.holder = made.holder
end

-- The worker holds a new plain job that never waited, and the log says both: its record as it is then.
function H.take(q, worker, rid, id, task, payload, spec)
  local kind = H.kind_of_new(q, id, task, payload, spec)
  if kind.taken_by ~= worker.id then taken_kind(q, worker, kind) end
  append(q, id, ENQUEUED .. rid .. kind.event)
  append(q, id, CLAIMED .. rid .. kind.claimed)
  local count, holders, parts = worker.count, worker.holders, worker.parts
  local at = 5 * count
  worker.count, worker.rids[count + 1] = count + 1, rid
  holders[2 * count + 1], holders[2 * count + 2] = rid, kind.holder
  parts[at + 1], parts[at + 2], parts[at + 3], parts[at + 4], parts[at + 5] = rid, kind.handed, id, task, payload
  worker.size = worker.size + kind.size
  return kind.record .. id .. task .. payload
end

-- The worker hears of all that it took, which is written already.
function H.hand_over_taken(q, worker)
  redis.call('HSET', q.key.active, unpack(worker.holders))
  if worker.room == worker.count then redis.call('ZREM', q.key.parked, worker.id) end
  H.send_hand_over(q, worker.id, worker.session, worker.rids, worker.parts, worker.size, worker.room)
end
