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

local SOME_KEYS = 100

-- The first member of each priority of a set of those that wait.
local function add_firsts(firsts, key)
  local from = '-'
  for _ = 1, 64 do
    local member = redis.call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, 1)[1]
    if not member then return end
    local priority, run_at = struct.unpack('>I2I7', member)
    firsts[#firsts + 1] = { run_at = run_at, rid = string.sub(member, -6) }
    from = '[' .. struct.pack('>I2', priority + 1)
  end
end

-- When the one of these became claimable that has waited longest: none did so before its run_at.
local function oldest_of(q, firsts)
  local best
  table.sort(firsts, function(one, other) return one.run_at < other.run_at end)
  for _, first in ipairs(firsts) do
    if best and best <= first.run_at then break end
    local job = H.peek(q, first.rid)
    local at = job and (job.more.ready_at or job.run_at)
    if at and (not best or at < best) then best = at end
  end
  return best
end

-- Some of many keys: those whose turn comes first, since they have waited longest, and others.
local function some_lanes(q)
  local keys = redis.call('ZRANGE', q.key.ready, 0, SOME_KEYS - 1)
  local flat = redis.call('HSCAN', q.key.lanes, '0', 'COUNT', SOME_KEYS)[2]
  for index = 1, math.min(#flat, 2 * SOME_KEYS), 2 do keys[#keys + 1] = flat[index] end
  return keys
end

-- The waiting jobs of all keys. Of many keys nobody counts them one by one: each record is in one state.
local function waiting_in(q, lanes, others)
  local waiting = redis.call('ZCARD', q.key.waiting) + redis.call('ZCARD', q.key.suspects)
  if lanes then
    for _, key in ipairs(lanes) do waiting = waiting + redis.call('ZCARD', H.lane_of(q, key)) end
    return waiting
  end
  local total = redis.call('HLEN', q.key.jobs)
  for _, count in pairs(others) do total = total - count end
  return math.max(waiting, total)
end

-- serve queue: now
--   reply: settings, operator, limits, workers, oldest, waiting, scheduled, active, completed, failed, cancelled, blocked
H.serve('queue', function(call, keys)
  local q, firsts, found = H.queue(keys[1], call.now), {}, {}
  if not q.epoch then return false end
  local lanes = redis.call('HLEN', q.key.lanes) <= KEYS_LOOKED_AT and redis.call('HKEYS', q.key.lanes) or nil
  add_firsts(firsts, q.key.waiting)
  add_firsts(firsts, q.key.suspects)
  for _, key in ipairs(lanes or some_lanes(q)) do add_firsts(firsts, H.lane_of(q, key)) end
  for _, name in ipairs({ 'scheduled', 'completed', 'failed', 'cancelled', 'blocked' }) do
    found[name] = redis.call('ZCARD', q.key[name])
  end
  found.active = redis.call('HLEN', q.key.active)
  found.waiting = waiting_in(q, lanes, found)
  found.settings, found.operator = q.settings_text, redis.call('HGET', q.key.queue, 'operator') or '{}'
  found.limits, found.oldest = redis.call('HGETALL', q.key.limits), oldest_of(q, firsts)
  found.workers = redis.call('ZCOUNT', q.key.expiries, '(' .. q.now, '+inf')
  return REPLY.queue(found)
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
