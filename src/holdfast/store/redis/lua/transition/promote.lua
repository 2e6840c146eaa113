-- promote: scheduled -> waiting
-- guard: its run_at has come, or somebody asks for it now
-- effects: take its place in the queue, append event

-- Jobs and lanes whose time has come may be claimed, a bounded number of them.
function H.promote_due(q)
  local keys, seen, soonest = {}, {}, H.next_scheduled(q)
  if not soonest or soonest > q.now then
    q.soonest = soonest or false -- nothing is due, and this call schedules nothing more
    if H.any(q, 'lanes') then H.recheck_due(q, MOST_PROMOTED) end
    return
  end
  for _, rid in ipairs(redis.call('ZRANGEBYSCORE', q.key.scheduled, '-inf', q.now, 'LIMIT', 0, MOST_PROMOTED)) do
    redis.call('ZREM', q.key.scheduled, rid)
    local job = H.load(q, rid)
    if job and job.state == 'scheduled' then
      job.state, job.more.ready_at = 'waiting', nil
      H.store(q, job)
      H.put(q, job)
      H.append(q, 'promote', job)
      local key = job.more.key
      if key and not seen[key] then seen[key], keys[#keys + 1] = true, key end
    elseif not job then
      H.set_aside(q, rid)
    end
  end
  H.recheck_each(q, keys)
  if H.any(q, 'lanes') then H.recheck_due(q, MOST_PROMOTED) end
end

-- serve promote: now, id, actor
--   reply: a word
H.serve('promote', function(call, keys)
  local q = H.acting(keys[1], call)
  local job = H.answering(q, call.id)
  if not job then return 'missing' end
  if job.state ~= 'scheduled' then return 'wrong_state' end
  H.take_away(q, job)
  job.state, job.run_at, job.more.ready_at = 'waiting', q.now, nil
  H.store(q, job)
  H.put(q, job)
  H.append(q, 'promote', job, { cause = 'asked' })
  H.recheck(q, job.more.key)
  H.wake(q, 1)
  return 'ok'
end)
