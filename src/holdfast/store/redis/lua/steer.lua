-- What people and workers set, and what they look at. Python decides, on what it read; here it is written only if
-- nothing was changed meanwhile (the revision), and everything that follows from it happens in the same step.

local MANY = 1000000 -- more jobs than parked workers have room for: all of them are woken

-- pairs of: where ("queue", "policies", ...), field, value; an empty value removes the field.
H.serve('steer', function(keys, args)
  local arg = H.reader(args)
  local now, name, revision, wake = H.now(arg()), arg(), arg(), tonumber(arg())
  local recheck, key, count = arg(), H.optional(arg()), tonumber(arg())
  local q = H.opened(keys[1], now, name)
  if (redis.call('HGET', q.key.queue, 'revision') or '0') ~= revision then return 'changed' end
  for _ = 1, count do
    local where, field, value = arg(), arg(), arg()
    if value == '' then redis.call('HDEL', q.key[where], field) else redis.call('HSET', q.key[where], field, value) end
  end
  redis.call('HINCRBY', q.key.queue, 'revision', 1)
  q = H.queue(keys[1], now)
  if recheck == 'all' then H.recheck_all(q) elseif recheck == 'one' then H.recheck(q, string.sub(key, 2)) end
  if wake ~= 0 then H.wake(q, wake > 0 and wake or MANY) end
  return 'ok'
end)

local function keep(q, job, ttl)
  local more = job.more
  more.ttl = ttl
  ttl = ttl or H.result_ttl(q)
  if more.finished_at and more.chain_state ~= 'open' then
    more.free_at = q.now + ttl
    local kept = (more.ended_at or more.finished_at) + H.kept_ms(q, H.outcome(job))
    more.expires_at = math.max(q.now + ttl, kept, more.dedup_until or 0)
    redis.call('ZADD', q.key[job.state], more.expires_at, job.rid)
  end
  H.store(q, job)
end

H.serve('set_ttl', function(keys, args)
  local arg = H.reader(args)
  local now, id, ttl = H.now(arg()), arg(), tonumber(arg())
  local q = H.queue(keys[1], now)
  local job = H.holding(q, id)
  if not job then return 'missing' end
  keep(q, job, ttl)
  return 'ok'
end)

-- Those that only wait are written together; `rids` and `raws` belong to each other.
local function keep_all(q, rids, raws, ttl)
  local records, rest = {}, ttl and H.rest({ ttl = ttl })
  for index, rid in ipairs(rids) do
    local record = raws[index] and H.with_rest(raws[index], rest)
    if record then
      records[#records + 1], records[#records + 2] = rid, record
    elseif raws[index] then
      local job = H.load(q, rid)
      if job and not job.more.past then keep(q, job, ttl) end
    end
  end
  H.in_parts(records, function(...) redis.call('HSET', q.key.jobs, ...) end)
end

H.serve('keep_runs', function(keys, args)
  local arg = H.reader(args)
  local now, first, last, ttl = H.now(arg()), tonumber(arg()), tonumber(arg()), tonumber(arg())
  local q = H.queue(keys[1], now)
  for from = first, last, AT_ONCE do
    local rids = {}
    for run = from, math.min(from + AT_ONCE - 1, last) do rids[#rids + 1] = H.rid(run) end
    keep_all(q, rids, redis.call('HMGET', q.key.jobs, unpack(rids)), ttl)
  end
  return 'ok'
end)

H.serve('watch', function(keys, args)
  local arg = H.reader(args)
  local now, id, run, address = H.now(arg()), arg(), tonumber(arg()), arg()
  local q = H.queue(keys[1], now)
  local job = H.find(q, id, run)
  if not job or FINISHED[H.outcome(job)] then
    local new = H.successor(q, id)
    if not new or new.run ~= run then return 'over' end
  end
  H.watch(q, id, run, address)
  return 'ok'
end)

H.serve('unwatch', function(keys, args)
  local arg = H.reader(args)
  local id, run, address = arg(), tonumber(arg()), arg()
  H.unwatch(H.queue(keys[1], 0), id, run, run, address)
  return 'ok'
end)

-- Looking changes nothing: these may be asked of a replica.

local function peek(q, rid)
  local raw = rid and redis.call('HGET', q.key.jobs, rid)
  if not raw then return nil end
  local fine, job = pcall(H.decode, rid, raw)
  if not fine then return nil end
  job.raw = raw
  return job
end

-- The run itself, or the one that absorbed it.
function H.find(q, id, run)
  local found = peek(q, H.rid(run))
  if not found or found.id ~= id then
    found = nil
    local candidates = { redis.call('HGET', q.key.ids, id) or nil }
    local text = redis.call('HGET', q.key.past, id)
    for _, past in ipairs(H.unpacked(text) or {}) do candidates[#candidates + 1] = H.rid(past) end
    for _, rid in ipairs(candidates) do
      local job = peek(q, rid)
      if job and job.run <= run and (job.more.absorbed_to or 0) >= run then found = job end
    end
  end
  if found and not H.is_gone(q, found) then return found end
end

local function latest(q, id)
  local held = peek(q, redis.call('HGET', q.key.ids, id))
  if held and not H.is_gone(q, held) then return held end
  local text = redis.call('HGET', q.key.past, id)
  local runs = H.unpacked(text) or {}
  for index = #runs, 1, -1 do
    local job = peek(q, H.rid(runs[index]))
    if job and not H.is_gone(q, job) then return job end
  end
end

H.serve('get', function(keys, args)
  local arg = H.reader(args)
  local now, id, run = H.now(arg()), arg(), arg()
  local q = H.queue(keys[1], now)
  local job
  if run == '' then job = latest(q, id) else job = H.find(q, id, tonumber(run)) end
  if not job then return false end
  local successor = H.outcome(job) == 'active' and redis.call('HEXISTS', q.key.successors, id) or 0
  return { job.run, job.raw, successor, now }
end)

-- The time, and the records of some runs as they stand.
H.serve('fetch', function(keys, args)
  local jobs = string.sub(keys[1], 1, #keys[1] - #NAME.queue) .. NAME.jobs
  local found = redis.call('HMGET', jobs, unpack(args, 2))
  return { H.now(args[1]), unpack(found) }
end)

-- The records of some runs: flat run, record, successor; and the time.
H.serve('records', function(keys, args)
  local arg = H.reader(args)
  local q = H.queue(keys[1], H.now(arg()))
  local reply = { q.now }
  for rid in arg do
    local job = peek(q, rid)
    if job then
      reply[#reply + 1], reply[#reply + 2] = job.run, job.raw
      reply[#reply + 1] = H.outcome(job) == 'active' and redis.call('HEXISTS', q.key.successors, job.id) or 0
    end
  end
  return reply
end)

local function oldest_in(q, key, best)
  local from = '-'
  for _ = 1, 64 do -- the first of each priority
    local place = redis.call('ZRANGEBYLEX', key, from, '+', 'LIMIT', 0, 1)[1]
    if not place then return best end
    local priority = struct.unpack('>I2', place)
    local job = peek(q, string.sub(place, -6))
    local at = job and (job.more.ready_at or job.run_at)
    if at and (not best or at < best) then best = at end
    from = '[' .. struct.pack('>I2', priority + 1)
  end
  return best
end

-- A queue at a glance.
H.serve('glance', function(keys, args)
  local arg = H.reader(args)
  local q = H.queue(keys[1], H.now(arg()))
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
  return {
    q.settings_text, operator, redis.call('HGETALL', q.key.limits), redis.call('ZCOUNT', q.key.expiries, '(' .. q.now, '+inf'),
    oldest or -1, waiting, count('scheduled'), redis.call('HLEN', q.key.active), count('completed'), count('failed'),
    count('cancelled'), count('blocked'),
  }
end)

H.serve('pending', function(keys, args)
  local arg = H.reader(args)
  local q = H.queue(keys[1], H.now(arg()))
  if H.setting(q, 'paused') then return 0 end
  if redis.call('EXISTS', q.key.waiting, q.key.suspects) > 0 then return 1 end
  for _, key in ipairs(redis.call('HKEYS', q.key.lanes)) do
    if redis.call('EXISTS', H.lane_of(q, key)) == 1 then return 1 end
  end
  local next_at = H.next_scheduled(q)
  if not next_at then return 0 end
  if next_at <= q.now then return 1 end
  for _, rid in ipairs(redis.call('ZRANGE', q.key.scheduled, 0, 999)) do
    local job = peek(q, rid)
    if job and (job.more.attempts or 0) > 0 then return 1 end
  end
  return 0
end)

-- The sessions of a queue: flat id, record, active jobs.
H.serve('sessions', function(keys, args)
  local arg = H.reader(args)
  local q = H.queue(keys[1], H.now(arg()))
  local counts, reply = {}, { q.now }
  for _, text in ipairs(redis.call('HVALS', q.key.active)) do
    local id = H.holder(text)
    counts[id] = (counts[id] or 0) + 1
  end
  local found = redis.call('HGETALL', q.key.sessions)
  for index = 1, #found, 2 do
    local session = H.known_session(q, found[index], found[index + 1])
    reply[#reply + 1] = {
      found[index], session.info, session.started_at, session.heard_at, session.expires_at,
      session.dead and 1 or 0, counts[found[index]] or 0,
    }
  end
  return reply
end)

-- Runs whose records a client could not read, though they looked well here: no text where there should be one.
H.serve('aside', function(keys, args)
  local arg = H.reader(args)
  local q = H.opened(keys[1], H.now(arg()), arg())
  for rid in arg do
    local raw = redis.call('HGET', q.key.jobs, rid)
    if raw then H.set_aside(q, rid, raw) end
  end
  return 'ok'
end)

H.serve('version', function() return VERSION end)
