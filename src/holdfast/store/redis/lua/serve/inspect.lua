-- Reading changes nothing: these may be asked of a replica.

function H.peek(q, rid)
  local raw = rid and redis.call('HGET', q.key.jobs, rid)
  if not raw then return nil end
  local fine, job = pcall(H.decode, rid, raw)
  if not fine then return nil end
  job.raw = raw
  return job
end

-- The run itself, or the one that absorbed it.
function H.find(q, id, run)
  local found = H.peek(q, H.rid(run))
  if not found or found.id ~= id then
    found = nil
    local candidates = { redis.call('HGET', q.key.ids, id) or nil }
    local text = redis.call('HGET', q.key.past, id)
    for _, past in ipairs(H.unpacked(text) or {}) do candidates[#candidates + 1] = H.rid(past) end
    for _, rid in ipairs(candidates) do
      local job = H.peek(q, rid)
      if job and job.run <= run and (job.more.absorbed_to or 0) >= run then found = job end
    end
  end
  if found and not H.is_gone(q, found) then return found end
end

local function latest(q, id)
  local held = H.peek(q, redis.call('HGET', q.key.ids, id))
  if held and not H.is_gone(q, held) then return held end
  local text = redis.call('HGET', q.key.past, id)
  local runs = H.unpacked(text) or {}
  for index = #runs, 1, -1 do
    local job = H.peek(q, H.rid(runs[index]))
    if job and not H.is_gone(q, job) then return job end
  end
end

-- serve get: now, id, run
--   reply: run, record, successor, now
H.serve('get', function(call, keys)
  local q, id = H.queue(keys[1], call.now), call.id
  local job
  if call.run then job = H.find(q, id, call.run) else job = latest(q, id) end
  if not job then return false end
  local successor = H.outcome(job) == 'active' and redis.call('HEXISTS', q.key.successors, id) or 0
  return REPLY.get({ run = job.run, record = job.raw, successor = successor, now = q.now })
end)

-- serve fetch: now
--   then, over and over, run_arguments: rid
--   reply: now, records
H.serve('fetch', function(call, keys, args, at)
  local jobs = string.sub(keys[1], 1, #keys[1] - #NAME.queue) .. NAME.jobs
  return REPLY.fetch({ now = call.now, records = redis.call('HMGET', jobs, unpack(args, at)) })
end)

local function oldest_in(q, key, best)
  local from = '-'
  for _ = 1, 64 do -- the first of each priority
    local member = redis.call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, 1)[1]
    if not member then return best end
    local priority = struct.unpack('>I2', member)
    local job = H.peek(q, string.sub(member, -6))
    local at = job and (job.more.ready_at or job.run_at)
    if at and (not best or at < best) then best = at end
    from = '[' .. struct.pack('>I2', priority + 1)
  end
  return best
end

-- serve queue: now
--   reply: settings, operator, limits, workers, oldest, waiting, scheduled, active, completed, failed, cancelled, blocked
H.serve('queue', function(call, keys)
  local q = H.queue(keys[1], call.now)
  if not q.epoch then return false end
  local lanes = redis.call('HKEYS', q.key.lanes)
  local waiting = redis.call('ZCARD', q.key.waiting) + redis.call('ZCARD', q.key.suspects)
  local oldest = oldest_in(q, q.key.suspects, oldest_in(q, q.key.waiting))
  for index, key in ipairs(lanes) do
    waiting = waiting + redis.call('ZCARD', H.lane_of(q, key))
    if index <= 1000 then oldest = oldest_in(q, H.lane_of(q, key), oldest) end
  end
  local count = function(name) return redis.call('ZCARD', q.key[name]) end
  local operator = redis.call('HGET', q.key.queue, 'operator') or '{}'
  return REPLY.queue({
    settings = q.settings_text, operator = operator, limits = redis.call('HGETALL', q.key.limits),
    workers = redis.call('ZCOUNT', q.key.expiries, '(' .. q.now, '+inf'), oldest = oldest, waiting = waiting,
    scheduled = count('scheduled'), active = redis.call('HLEN', q.key.active), completed = count('completed'),
    failed = count('failed'), cancelled = count('cancelled'), blocked = count('blocked'),
  })
end)

-- serve pending: now
--   reply: a number
H.serve('pending', function(call, keys)
  local q = H.queue(keys[1], call.now)
  if H.setting(q, 'paused') then return 0 end
  if redis.call('EXISTS', q.key.waiting, q.key.suspects) > 0 then return 1 end
  for _, key in ipairs(redis.call('HKEYS', q.key.lanes)) do
    if redis.call('EXISTS', H.lane_of(q, key)) == 1 then return 1 end
  end
  local next_at = H.next_scheduled(q)
  if not next_at then return 0 end
  if next_at <= q.now then return 1 end
  for _, rid in ipairs(redis.call('ZRANGE', q.key.scheduled, 0, 999)) do
    local job = H.peek(q, rid)
    if job and (job.more.attempts or 0) > 0 then return 1 end
  end
  return 0
end)

-- serve sessions: now
--   reply: now, sessions
--   in it, session_fields: id, info, started_at, heard_at, expires_at, dead, active, memory, command
H.serve('sessions', function(call, keys)
  local q = H.queue(keys[1], call.now)
  local counts, sessions = {}, {}
  for _, text in ipairs(redis.call('HVALS', q.key.active)) do
    local id = H.holder(text)
    counts[id] = (counts[id] or 0) + 1
  end
  local found = redis.call('HGETALL', q.key.sessions)
  for index = 1, #found, 2 do
    local session = H.known_session(q, found[index], found[index + 1])
    sessions[#sessions + 1] = REPLY.session_fields({
      id = found[index], info = session.info, started_at = session.started_at, heard_at = session.heard_at,
      expires_at = session.expires_at, dead = session.dead and 1, active = counts[found[index]] or 0,
      memory = session.memory, command = session.command,
    })
  end
  return REPLY.sessions({ now = q.now, sessions = sessions })
end)

-- serve members: now, chain_queue, chain_id, chain_run
--   reply: a list
H.serve('members', function(call, keys)
  return H.members(H.queue(keys[1], call.now), { call.chain_queue, call.chain_id, call.chain_run })
end)

redis.register_function({ function_name = PREFIX .. 'version', callback = function() return VERSION end, flags = { 'no-writes' } })
