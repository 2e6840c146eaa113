-- extend: active -> active
-- guard: the session has not been reaped
-- effects: move the session's expiry

function H.extend(q, id, session, lease, memory)
  session.heard_at, session.expires_at, session.lease = q.now, q.now + lease, lease
  session.memory = memory or session.memory
  H.put_session(q, id, session)
end

-- serve extend: now, shift, session, lease_ms, memory
--   reply: status, late, aborts, command
--   in it, abort_fields: id, run, attempt, reason
H.serve('extend', function(call, keys)
  local now, id, late, aborts, command = call.now, call.session, 0, {}, nil
  local queues, sessions = {}, {}
  for index, key in ipairs(keys) do
    local q = H.queue(key, now)
    H.catch_up(q, call.shift)
    local session = H.session(q, id)
    if not session or session.dead then return REPLY.extend({ status = 'evicted' }) end
    if session.expires_at <= now then late = 1 end
    queues[index], sessions[index] = q, session
    command = command == 'stop' and command or session.command or command
  end
  for index, q in ipairs(queues) do
    H.extend(q, id, sessions[index], call.lease_ms, call.memory)
    aborts[index] = H.aborts(q, id)
  end
  return REPLY.extend({ status = 'alive', late = late, aborts = aborts, command = command })
end)
