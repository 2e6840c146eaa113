-- Dependants: who waits for a chain of this queue.

-- A dependant: after the run of the chain's first job, its queue and run, the number of the blocker there, and its id.
function H.dependant(rid, from)
  return rid .. struct.pack('>I2', #from[1]) .. from[1] .. from[2] .. struct.pack('>I4', from[3]) .. from[4]
end

local function from_of(member)
  local size = struct.unpack('>I2', member, 7)
  local at = 9 + size
  return {
    string.sub(member, 9, at - 1), string.sub(member, at, at + 5), (struct.unpack('>I4', member, at + 6)),
    string.sub(member, at + 10),
  }
end

-- All of them, or the first so many.
function H.dependants(q, rid, limit)
  return redis.call('ZRANGEBYLEX', q.key.dependants, '[' .. rid, '(' .. H.rid(H.run_of(rid) + 1), 'LIMIT', 0, limit or -1)
end

-- The first job of the chain that is meant; or, when that is in another queue, where.
function H.chain_of(q, id, run)
  local job
  if run then job = H.find(q, id, run) else job = H.answering(q, id) end
  if not job or H.is_gone(q, job) then return nil end
  if not job.more.chain then return job end
  local chain = H.chain_parts(job.more.chain)
  if chain[1] ~= q.name then return nil, chain end
  return H.find(q, H.short(chain[2]), chain[3])
end

local function outcome_of(q, job)
  local more, state = job.more, H.outcome(job)
  local last = more.last or { q.name, job.task or false }
  return {
    state = state, result = job.result, error = state == 'failed' and more.error or nil, queue = last[1],
    task = last[2] or nil,
  }
end

local function missing(q, id)
  local error = H.error('blocker', 'BlockerMissing', 'there is no job ' .. q.name .. '/' .. id)
  return { state = 'failed', error = error.text }
end

-- How the chain ended that is meant: nil, and the run of its first job, while it is open; nil and where to ask.
function H.chain_outcome(q, id, run)
  local stored = H.short(id)
  local job, elsewhere = H.chain_of(q, stored, run)
  if elsewhere then return nil, nil, elsewhere end
  if not job then
    local new = run and H.successor(q, stored)
    if new and new.run == run then return nil, H.rid(run) end
    return missing(q, id)
  end
  if FINISHED[H.outcome(job)] then return outcome_of(q, job) end
  return nil, job.rid
end

local function resolve(q, from, outcome)
  if from[1] == q.name then
    H.blocker_done(q, from[2], from[3], outcome)
  else
    H.send(q, from[1], 'done', { rid = from[2], number = from[3], outcome = outcome })
  end
end

-- Tell those who wait for the chain that begins with this run how it ended.
function H.resolve_dependants(q, rid, outcome)
  if not H.any(q, 'dependants') then return end
  local members = H.dependants(q, rid)
  if #members == 0 then return end
  H.in_parts(members, function(...) redis.call('ZREM', q.key.dependants, ...) end)
  for _, member in ipairs(members) do resolve(q, from_of(member), outcome) end
end

function H.resolve_finished(q, job)
  H.resolve_dependants(q, job.rid, outcome_of(q, job))
end

-- Who waits for a run that was merged into another waits for that one.
function H.repoint(q, run, to)
  if not H.any(q, 'dependants') then return end
  for _, member in ipairs(H.dependants(q, H.rid(run))) do
    redis.call('ZREM', q.key.dependants, member)
    redis.call('ZADD', q.key.dependants, 0, H.rid(to) .. string.sub(member, 7))
    local from = from_of(member)
    if from[1] == q.name then H.repoint_blocker(q, from[2], from[3], H.rid(to)) end
  end
end

-- Messages of other queues.

function H.receive.register(q, body)
  local run = body.run or nil
  local outcome, rid, elsewhere = H.chain_outcome(q, body.id, run)
  if outcome then
    resolve(q, body.from, outcome)
  elseif elsewhere then
    H.ask_blocker(q, elsewhere[1], elsewhere[2], elsewhere[3], body.from)
  else
    redis.call('ZADD', q.key.dependants, 0, H.dependant(rid, body.from))
    q.has.dependants = true
  end
end

function H.receive.unregister(q, body)
  local job, elsewhere = H.chain_of(q, H.short(body.id), body.run or nil)
  if elsewhere then
    body.id, body.run = elsewhere[2], elsewhere[3]
    H.send(q, elsewhere[1], 'unregister', body)
  elseif job then
    redis.call('ZREM', q.key.dependants, H.dependant(job.rid, body.from))
  elseif body.run then
    redis.call('ZREM', q.key.dependants, H.dependant(H.rid(body.run), body.from))
  end
end

-- Who waits for a chain: flat queue, run, id.
function H.waiting_for(q, rid, limit)
  local reply = {}
  for _, member in ipairs(H.dependants(q, rid, limit)) do
    local from = from_of(member)
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = from[1], H.run_of(from[2]), from[4]
  end
  return reply
end
