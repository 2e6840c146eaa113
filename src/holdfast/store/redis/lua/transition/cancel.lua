-- cancel: blocked | scheduled | waiting -> cancelled
-- guard: the run has not started; an active one is refused or signalled
-- effects: free the id, end the chain, drop the successor, append event, tell waiters

-- The run is over and its id free. `exit` is how its attempt ended, nil when none did.
function H.cancel(q, job, exit, cause)
  local event = exit and H.ending(q, job) or {}
  event.cause = exit or cause
  if job.state == 'active' then H.let_go(q, job.rid) else H.take_away(q, job) end
  job.state, job.more.exit = 'cancelled', exit or job.more.exit or 'cancel'
  H.end_times(q, job)
  job.more.free_at = q.now
  H.free_id(q, job)
  H.append(q, 'cancel', job, event)
  H.finish(q, job)
end

local function cancel_or_signal(q, id, running)
  local job = H.answering(q, id)
  if not job then return REPLY.cancel({ reply = 'missing' }) end
  local successor = H.drop_successor(q, job, true) and 1 or 0
  job = H.current(q, job)
  local state, run = job.state, job.run
  if state == 'active' then
    local signalled = running ~= 'refuse' and 1 or 0
    if signalled == 1 then
      job.more.cancel = true
      H.store(q, job)
      local message = cjson.encode({ running = running })
      H.append_action(q, { name = 'cancel', id = job.id, run = run, message = message })
      H.abort(q, job, running == 'kill' and 'killed' or 'cancelled')
    end
    local reply = signalled + successor > 0 and 'ok' or 'wrong_state'
    return REPLY.cancel({ reply = reply, state = state, run = run, signalled = signalled, successor = successor })
  end
  if FINISHED[state] then
    local reply = successor == 1 and 'ok' or 'wrong_state'
    return REPLY.cancel({ reply = reply, state = state, run = run, signalled = 0, successor = successor })
  end
  H.cancel(q, job)
  H.recheck(q, job.more.key)
  return REPLY.cancel({ reply = 'ok', state = state, run = run, signalled = 0, successor = successor })
end

-- serve cancel: now, request, id, running, actor
--   reply: reply, state, run, signalled, successor
H.serve('cancel', function(call, keys)
  local q = H.acting(keys[1], call)
  return H.once(q, call.request, function() return cancel_or_signal(q, call.id, call.running) end)
end)
