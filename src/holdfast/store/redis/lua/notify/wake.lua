-- Wake-ups: a hint to one listener of one process, with the name of the queue. One that is lost costs a poll.

function H.ring(address, message)
  local channel, number = string.match(address, '^(.*)#(%d+)$')
  if channel then redis.call('PUBLISH', channel, number .. (message or '')) end
end

local function ring_for(q, session)
  if session.address then H.ring(session.address, '@' .. (q.name or '')) end
end

function H.ring_session(q, session)
  local found = H.session(q, session)
  if found then ring_for(q, found) end
end

-- The caller is not parked meanwhile; return whether it was. Not done before another worker is to be woken, or
-- the call is over: most callers park again.
function H.unpark(q)
  local caller = q.caller
  if caller then
    q.caller = nil
    q.was_parked = redis.call('ZREM', q.key.parked, caller) == 1
  end
  return q.was_parked
end

-- Enough parked workers for so many jobs are woken, no more; those with the most room first. With `hand_over`, one that has
-- nothing to do gets them at once.
function H.wake(q, jobs, hand_over)
  local woken = 0
  if q.has.parked == false then return end
  H.unpark(q)
  hand_over = hand_over and jobs <= MOST_HANDED_OVER
  while jobs > 0 and woken < MOST_WOKEN do
    local found = redis.call('ZPOPMAX', q.key.parked)
    if #found == 0 then return end
    local id, score = found[1], tonumber(found[2])
    local room, session = math.floor(score), H.session(q, id)
    if session then
      local given = hand_over and H.may_hand_over(score) and H.hand_over_to(q, id, session, math.min(jobs, room), room)
      if not given then ring_for(q, session) end
    end
    jobs = jobs - room
    woken = woken + 1
  end
end

function H.next_scheduled(q)
  local found = redis.call('ZRANGE', q.key.scheduled, 0, 0, 'WITHSCORES')
  return found[2] and tonumber(found[2])
end

-- Wake a worker for a job that came to the queue: now, or when to wake up for it is another instant than before.
function H.wake_for(q, run_at)
  if run_at <= q.now or H.next_scheduled(q) == run_at then H.wake(q, 1) end
end
