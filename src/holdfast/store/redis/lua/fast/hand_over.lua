-- The fast path of `hand_over_to` in notify/hand_over.lua: an idle worker claims new plain jobs before they ever wait.

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
  return { id = id, session = session, room = math.floor(score), claimed = {}, holders = {} }
end

-- The worker holds a new plain job, and the log says so: its record as it is then.
function H.take(q, worker, rid, raw)
  local record, holder, timeout = H.claim_plain(q, worker.id, rid, raw)
  local claimed, holders = worker.claimed, worker.holders
  claimed[#claimed + 1], claimed[#claimed + 2], claimed[#claimed + 3] = rid, raw, timeout
  holders[#holders + 1], holders[#holders + 2] = rid, holder
  return record
end

-- The worker hears of all that it took, which is written already.
function H.hand_over_taken(q, worker)
  redis.call('HSET', q.key.active, unpack(worker.holders))
  if worker.room == #worker.holders / 2 then redis.call('ZREM', q.key.parked, worker.id) end
  H.send_hand_over(q, worker.id, worker.session, worker.claimed, worker.room)
end
