-- What a worker says of its session: that it begins, lives, and ends.

-- serve register: now, shift, queue, session, lease_ms, info, address
--   reply: a word
H.serve('register', function(call, keys)
  local now, lease = call.now, call.lease_ms
  local q = H.opened(keys[1], now, call.queue)
  H.catch_up(q, call.shift)
  local known = H.session(q, call.session) or NOTHING
  H.put_session(q, call.session, {
    info = call.info, address = call.address, started_at = now, heard_at = now, expires_at = now + lease, lease = lease,
    memory = known.memory, command = not known.dead and known.command or nil,
  })
  return 'ok'
end)

-- When any session was last heard, and by how much expiries have moved because none was, for longer than the one that was
-- heard last, with a lease of its own, would have let pass. A reaper has no lease.
-- serve hear: now, lease_ms
--   reply: version, shift, gap
H.serve('hear', function(call, keys)
  local now, lease = call.now, call.lease_ms
  local stored = redis.call('HMGET', keys[1], 'heard', 'shift', 'lease')
  local heard, shift, last = tonumber(stored[1] or 0), tonumber(stored[2] or 0), tonumber(stored[3] or '')
  last = last or lease or DEFAULT_LEASE_MS
  lease = lease or last
  local gap = now - heard
  if gap >= 0 and gap < math.min(PULSE_MS, math.floor(lease / PULSES_IN_A_LEASE)) then
    return REPLY.hear({ version = VERSION, shift = shift, gap = 0 })
  end
  redis.call('HSET', keys[1], 'heard', string.format('%.0f', now), 'lease', lease)
  if heard == 0 or gap <= math.floor(last * 2 / 3) then
    return REPLY.hear({ version = VERSION, shift = shift, gap = 0 })
  end
  redis.call('HSET', keys[1], 'shift', string.format('%.0f', shift + gap))
  return REPLY.hear({ version = VERSION, shift = shift + gap, gap = gap })
end)

-- What a worker is told; the log tells of it by the action, where that is given: in one of its queues.
-- serve command: now, session, command, action
--   reply: a word
H.serve('command', function(call, keys)
  local q = H.queue(keys[1], call.now)
  local session = H.session(q, call.session)
  if not session or session.dead or session.expires_at <= q.now then return 'missing' end
  if session.command == call.command or session.command == 'stop' then return 'ok' end
  session.command = call.command
  H.put_session(q, call.session, session)
  if call.action then H.append_action(q, cjson.decode(call.action)) end
  return 'ok'
end)

-- The session is over. Whatever it still held counts as stalled at the next reap.
-- serve leave: now, session
--   reply: a word
H.serve('leave', function(call, keys)
  local q, id = H.queue(keys[1], call.now), call.session
  redis.call('ZREM', q.key.parked, id)
  local session = H.session(q, id)
  if not session then return 'missing' end
  for _, text in ipairs(redis.call('HVALS', q.key.active)) do
    if H.holder(text) == id and not session.dead then
      session.expires_at = q.now
      H.put_session(q, id, session)
      return 'held'
    end
  end
  H.forget_session(q, id)
  return 'ok'
end)

-- What the store thinks this session is working on; what of it cannot be read fails.
-- serve held: now, session
--   reply: status, claimed
--   in it, claimed_fields: run, record, timeout_ms
H.serve('held', function(call, keys)
  local q, id = H.queue(keys[1], call.now), call.session
  local session = H.session(q, id)
  if not session or session.dead then return REPLY.held({ status = 'evicted' }) end
  local claimed, rids = {}, {}
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
        for _, text in ipairs({ more.envelope or '{}', more.overrides or '{}', more.error or '{}' }) do H.json(text) end
      end)
      if fine then
        local at = #claimed
        claimed[at + 1], claimed[at + 2], claimed[at + 3] = job.run, H.encode(job), timeout or -1
      else
        local error = H.error('corrupt', 'CorruptRecord', 'its envelope, overrides or last error cannot be read')
        H.fail(q, job, { error = error, cause = 'corrupt', exit = 'fail' })
      end
    end
  end
  return REPLY.held({ status = 'alive', claimed = claimed })
end)
