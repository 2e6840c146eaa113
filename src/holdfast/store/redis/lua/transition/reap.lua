-- reap: active -> waiting
-- guard: the holder's session has expired
-- effects: drop lease, count the stall (at its limit, if it was alone: fail), keep its place, make it suspect, merge the successor, append event

-- How many jobs a worker has room for; where that is not known, more than one.
local function slots_of(q, id)
  local session = H.session(q, id)
  local fine, info = pcall(H.json, session and session.info or '')
  return fine and type(info) == 'table' and tonumber(info.slots) or 2
end

function H.reap(q, job)
  if job.more.cancel then
    H.cancel(q, job, 'reap')
  else
    local error = H.error('stall', 'Stalled', 'its worker vanished while it ran')
    if H.count_cause(q, job, 'stall', 'reap', error, slots_of(q, job.more.session)) then
      H.put_back(q, job, 'reap', job.run_at, { state = 'waiting', error = error })
    end
  end
  H.recheck(q, job.more.key)
  return job.state
end

-- No lease ends later than a whole lease from now, unless the clock was set back since it was given: then it would
-- outlive its worker by as much. Looked at from the latest down, as far as one that is right: the others end before it.
local function cut_back(q)
  while true do
    local id = redis.call('ZRANGE', q.key.expiries, -1, -1)[1]
    local session = id and H.session(q, id)
    if not (session and session.lease and session.expires_at > q.now + session.lease) then return end
    session.expires_at = q.now + session.lease
    H.put_session(q, id, session)
  end
end

local function declare_dead(q, but)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', q.key.expiries, '-inf', q.now)) do
    local session = H.session(q, id)
    if session and id ~= but then
      session.dead = true
      H.put_session(q, id, session)
      redis.call('SADD', q.key.dead, id)
    end
  end
end

-- In how long the next lease of another session is over, unless it is heard; false where there is no other.
local function next_lease(q, but)
  local soonest = redis.call('ZRANGE', q.key.expiries, 0, 1, 'WITHSCORES')
  for index = 1, #soonest, 2 do
    if soonest[index] ~= but then return math.max(0, tonumber(soonest[index + 1]) - q.now) end
  end
  return false
end

-- The runs of dead sessions, oldest first, and which dead sessions hold none.
local function runs_of(q, dead)
  local rids, busy = {}, {}
  local active = redis.call('HGETALL', q.key.active)
  for index = 1, #active, 2 do
    local id = H.holder(active[index + 1])
    if dead[id] then
      rids[#rids + 1] = active[index]
      busy[id] = (busy[id] or 0) + 1
    end
  end
  table.sort(rids)
  return rids, busy
end

-- serve reap: now, shift, queue, limit, asking
--   reply: returned, failed, more, posted, sessions, corrupt, next_ms, jobs
--   in it, reaped_fields: id, run, attempt, task, state, counters, ran_ms
H.serve('reap', function(call, keys)
  local limit, but = call.limit, call.asking
  local q = H.opened(keys[1], call.now, call.queue)
  H.catch_up(q, call.shift)
  cut_back(q)
  declare_dead(q, but)
  local dead, names = {}, {}
  for _, id in ipairs(redis.call('SMEMBERS', q.key.dead)) do
    if id ~= but then
      dead[id] = true
      names[#names + 1] = id
    end
  end
  local tally, done, jobs = { waiting = 0, failed = 0 }, 0, {}
  if #names > 0 then
    local rids, busy = runs_of(q, dead)
    for index = 1, math.min(limit, #rids) do
      local rid = rids[index]
      local id = H.holder(redis.call('HGET', q.key.active, rid))
      local job = H.load(q, rid)
      if job then
        local run, more, task = job.run, job.more, job.task or false
        local attempt, ran = more.attempts or 0, q.now - (more.claimed_at or q.now)
        local counts = { more.failures or 0, more.stalls or 0, more.timeouts or 0, more.releases or 0 }
        local state = H.reap(q, job)
        jobs[#jobs + 1] = REPLY.reaped_fields({
          id = H.long(job.id), run = run, attempt = attempt, task = task, state = state, counters = counts, ran_ms = ran,
        })
        if state == 'scheduled' then state = 'waiting' end
        tally[state] = (tally[state] or 0) + 1
      else
        H.recheck(q, H.let_go(q, rid))
      end
      busy[id] = busy[id] - 1
      done = done + 1
    end
    H.wake(q, done)
    for _, id in ipairs(names) do
      if (busy[id] or 0) == 0 then H.forget_session(q, id) end
    end
  end
  local posted = redis.call('EXISTS', q.key.outbox)
  local untold = redis.call('LRANGE', q.key.untold, 0, -1)
  redis.call('DEL', q.key.untold)
  return REPLY.reap({
    returned = tally.waiting, failed = tally.failed, more = done == limit and 1 or 0, posted = posted > 0 and 1, sessions = names,
    corrupt = untold, next_ms = next_lease(q, but), jobs = jobs,
  })
end)
