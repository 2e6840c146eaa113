-- Sessions: what a queue knows of the workers that serve it.

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
    and type(session.address or '') == 'string' and type(session.lease or 0) == 'number'
    and type(session.memory or 0) == 'number' and type(session.command or '') == 'string' then
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

function H.forget_session(q, id)
  redis.call('HDEL', q.key.sessions, id)
  redis.call('ZREM', q.key.expiries, id)
  redis.call('ZREM', q.key.parked, id)
  redis.call('SREM', q.key.dead, id)
  local found = H.aborts(q, id)
  for index = 1, #found, 4 do redis.call('HDEL', q.key.aborts, found[index + 1] .. '/' .. found[index + 2]) end
end
