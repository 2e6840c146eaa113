-- extend: active -> active
-- guard: the session has not been reaped
-- effects: move the session's expiry

function H.session(q, id)
  local text = redis.call('HGET', q.key.sessions, id)
  if not text then return nil end
  local session, mended = H.known_session(q, id, text)
  if mended and not q.looks then
    H.put_session(q, id, session)
    H.note(q, 'session', id, 0, 'it cannot be read; the worker that it is of goes on')
  end
  return session
end

-- A session; one that cannot be read lives for another lease, under its id, and says no more of itself.
function H.known_session(q, id, text)
  local session = H.unpacked(text)
  if session and type(session.expires_at) == 'number' and type(session.heard_at) == 'number'
    and type(session.started_at) == 'number' and type(session.info) == 'string'
    and type(session.address or '') == 'string' and type(session.lease or 0) == 'number' then
    return session
  end
  return {
    info = '', started_at = q.now, heard_at = q.now, expires_at = q.now + DEFAULT_LEASE_MS, lease = DEFAULT_LEASE_MS,
  }, true
end

function H.put_session(q, id, session)
  redis.call('HSET', q.key.sessions, id, cmsgpack.pack(session))
  if session.dead then
    redis.call('ZREM', q.key.expiries, id)
    redis.call('ZREM', q.key.parked, id)
  else
    redis.call('ZADD', q.key.expiries, session.expires_at, id)
  end
end

-- Expiries follow every outage of the whole store that this queue does not know of yet.
function H.catch_up(q, shift)
  local known = q.shift
  if shift <= known then return end
  q.shift = shift
  redis.call('HSET', q.key.queue, 'shift', string.format('%.0f', shift))
  for _, id in ipairs(redis.call('ZRANGE', q.key.expiries, 0, -1)) do
    local session = H.session(q, id)
    if session then
      session.expires_at = session.expires_at + shift - known
      H.put_session(q, id, session)
    end
  end
end

function H.renew(q, id, session, lease)
  session.heard_at, session.expires_at, session.lease = q.now, q.now + lease, lease
  H.put_session(q, id, session)
end

H.serve('extend', function(keys, args)
  local arg = H.reader(args)
  local now, shift, id, lease = H.now(arg()), tonumber(arg()), arg(), tonumber(arg())
  local reply = { 'alive', 0 }
  local queues, sessions = {}, {}
  for index, key in ipairs(keys) do
    local q = H.queue(key, now)
    H.catch_up(q, shift)
    local session = H.session(q, id)
    if not session or session.dead then return { 'evicted' } end
    if session.expires_at <= now then reply[2] = 1 end
    queues[index], sessions[index] = q, session
  end
  for index, q in ipairs(queues) do
    H.renew(q, id, sessions[index], lease)
    reply[#reply + 1] = H.aborts(q, id)
  end
  return reply
end)

H.serve('register', function(keys, args)
  local arg = H.reader(args)
  local now, shift, name, id, lease = H.now(arg()), tonumber(arg()), arg(), arg(), tonumber(arg())
  local info, address = arg(), H.optional(arg())
  local q = H.opened(keys[1], now, name)
  H.catch_up(q, shift)
  H.put_session(q, id, {
    info = info, address = address, started_at = now, heard_at = now, expires_at = now + lease, lease = lease,
  })
  return 'ok'
end)

-- When any session was last heard, and by how much expiries have moved because nobody was, for longer than whoever was
-- heard last, with a lease of its own, would have let pass. A reaper has no lease.
H.serve('hear', function(keys, args)
  local arg = H.reader(args)
  local now, lease = H.now(arg()), tonumber(arg())
  local stored = redis.call('HMGET', keys[1], 'heard', 'shift', 'lease')
  local heard, shift, last = tonumber(stored[1] or 0), tonumber(stored[2] or 0), tonumber(stored[3] or '')
  last = last or lease or DEFAULT_LEASE_MS
  lease = lease or last
  local gap = now - heard
  if gap >= 0 and gap < math.min(1000, math.floor(lease / 6)) then return { VERSION, shift, 0 } end
  redis.call('HSET', keys[1], 'heard', string.format('%.0f', now), 'lease', lease)
  if heard == 0 or gap <= math.floor(last * 2 / 3) then return { VERSION, shift, 0 } end
  redis.call('HSET', keys[1], 'shift', string.format('%.0f', shift + gap))
  return { VERSION, shift + gap, gap }
end)

-- The session is over. Whatever it still held counts as stalled at the next reap.
H.serve('leave', function(keys, args)
  local arg = H.reader(args)
  local now, id = H.now(arg()), arg()
  local q = H.queue(keys[1], now)
  redis.call('ZREM', q.key.parked, id)
  local session = H.session(q, id)
  if not session then return 'missing' end
  for _, text in ipairs(redis.call('HVALS', q.key.active)) do
    if H.holder(text) == id and not session.dead then
      session.expires_at = now
      H.put_session(q, id, session)
      return 'held'
    end
  end
  H.forget_session(q, id)
  return 'ok'
end)

function H.forget_session(q, id)
  redis.call('HDEL', q.key.sessions, id)
  redis.call('ZREM', q.key.expiries, id)
  redis.call('ZREM', q.key.parked, id)
  redis.call('SREM', q.key.dead, id)
  local found = H.aborts(q, id)
  for index = 1, #found, 4 do redis.call('HDEL', q.key.aborts, found[index + 1] .. '/' .. found[index + 2]) end
end

-- What the store thinks this session is working on; what of it cannot be read fails.
H.serve('held', function(keys, args)
  local arg = H.reader(args)
  local now, id = H.now(arg()), arg()
  local q = H.queue(keys[1], now)
  local session = H.session(q, id)
  if not session or session.dead then return { 'evicted' } end
  local reply, rids = { 'alive' }, {}
  local active = redis.call('HGETALL', q.key.active)
  for index = 1, #active, 2 do
    if H.holder(active[index + 1]) == id then rids[#rids + 1] = active[index] end
  end
  table.sort(rids)
  for _, rid in ipairs(rids) do
    local job = H.load(q, rid)
    if not job then
      H.recheck(q, H.let_go(q, rid))
    else
      local more = job.more
      local _, _, timeout = H.policy(q, job)
      local fine = pcall(function()
        for _, text in ipairs({ more.headers or '{}', more.overrides or '{}', more.error or '{}' }) do H.json(text) end
      end)
      if fine then
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = job.run, H.encode(job), timeout or -1
      else
        local error = H.error('corrupt', 'CorruptRecord', 'its headers, overrides or last error cannot be read')
        H.fail(q, job, { error = error, cause = 'corrupt', exit = 'fail' })
      end
    end
  end
  return reply
end)
