-- cancel: blocked | scheduled | waiting -> cancelled
-- guard: the run has not started; an active one is refused or signalled
-- effects: free the id, end the chain, drop the successor, append event, tell waiters

-- The run is over and its id free. `exit` is how its attempt ended, nil when none did.
function H.cancelled(q, job, exit, cause)
  local event = exit and H.ending(q, job) or {}
  event.cause = exit or cause
  if job.state == 'active' then H.let_go(q, job.rid) else H.take_away(q, job) end
  job.state, job.more.exit = 'cancelled', exit or job.more.exit or 'cancel'
  H.end_times(q, job)
  job.more.free_at = q.now
  H.free_id(q, job)
  H.append(q, 'cancel', job, event)
  H.over(q, job)
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
  H.tell_watchers(q, job, 'cancelled')
end

function H.drop_successor(q, job, note)
  local new = H.successor(q, job.id)
  if not new then return false end
  H.forget_successor(q, job.id, new)
  H.report(q, H.rid(new.run), { state = 'cancelled' })
  if note then
    bury(q, job.id, new)
  else
    H.tell_watchers(q, { id = job.id, run = new.run, more = {} }, 'cancelled')
  end
  return true
end

local function cancel(q, id, running)
  local job = H.answering(q, id)
  if not job then return { 'missing', false, false, 0, 0 } end
  local successor = H.drop_successor(q, job, true) and 1 or 0
  job = H.current(q, job)
  local state, run = job.state, job.run
  if state == 'active' then
    local signalled = running ~= 'refuse' and 1 or 0
    if signalled == 1 then
      job.more.cancel = true
      H.store(q, job)
      H.abort(q, job, running == 'kill' and 'killed' or 'cancelled')
    end
    return { signalled + successor > 0 and 'ok' or 'wrong_state', state, run, signalled, successor }
  end
  if FINISHED[state] then return { successor == 1 and 'ok' or 'wrong_state', state, run, 0, successor } end
  H.cancelled(q, job)
  H.recheck(q, job.more.key)
  return { 'ok', state, run, 0, successor }
end

H.serve('cancel', function(keys, args)
  local arg = H.reader(args)
  local now, request, id, running = H.now(arg()), arg(), arg(), arg()
  local q = H.queue(keys[1], now)
  return H.once(q, request, function() return cancel(q, id, running) end)
end)
