-- complete, from outside: the job is over with this result, whichever worker has it, and so is its chain.
local function complete_outside(q, job, result, ttl)
  local was_active = job.state == 'active'
  local event = was_active and H.ending(q, job) or {}
  event.cause = 'outside'
  local holder = { more = { session = job.more.session, attempts = job.more.attempts }, id = job.id, run = job.run }
  if was_active then H.let_go(q, job.rid) else H.take_away(q, job) end
  job.state, job.result, job.more.exit, job.more.error = 'completed', result, 'outside', nil
  H.end_times(q, job, ttl)
  H.append(q, 'complete', job, event)
  H.finish(q, job)
  H.recheck(q, job.more.key)
  if was_active then
    H.abort(q, holder, 'completed_elsewhere')
    H.wake(q, 1)
  end
end

-- serve complete_chain: now, request, id, run, result, ttl_ms, actor
--   reply: a word
H.serve('complete_chain', function(call, keys)
  local q, request = H.acting(keys[1], call), call.request
  if request ~= '' then -- only a completion is remembered: a chain that went on is looked for elsewhere
    local known = redis.call('HGET', q.key.requests, request)
    if known then return H.first_answer(request, known) end
  end
  local job
  if call.run then job = H.find(q, call.id, call.run) else job = H.answering(q, call.id) end
  if not job then return 'missing' end
  job = H.current(q, job)
  if FINISHED[job.state] then return 'wrong_state' end
  return H.once(q, request, function()
    complete_outside(q, job, call.result, call.ttl_ms)
    return 'ok'
  end)
end)
