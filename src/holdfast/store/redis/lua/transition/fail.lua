-- fail: blocked | scheduled | waiting | active -> failed
-- guard: the caller holds the lease, or a limit is reached at claim, reap or release, or a blocker failed, or its record cannot be read
-- effects: drop lease, store error, enqueue the fail handler, end the chain, start the successor, append event, tell waiters

-- The fields of an envelope, as JSON with a comma behind them; nothing for one that is empty or cannot be read.
local function fields_of(envelope)
  local fine, value = pcall(cjson.decode, envelope or '{}')
  if not fine or type(value) ~= 'table' or next(value) == nil then return '' end
  return string.sub(envelope, 2, -2) .. ','
end

-- The last part of an id that is too long, beginning with a whole character.
local function shortened(id)
  if #id <= MOST_ID_BYTES then return id end
  id = string.sub(id, -MOST_ID_BYTES)
  while #id > 0 and string.byte(id, 1) >= 128 and string.byte(id, 1) < 192 do id = string.sub(id, 2) end
  return id
end

-- A failure job with the original payload, key, priority, counters and error, once for each failed run.
local function enqueue_fail_handler(q, job, error)
  local policy = H.policy(q, job)
  local handler = H.given(policy.on_failure)
  if not handler then return end
  local more = job.more
  local counters = string.format(
    '{"attempts":%d,"failures":%d,"stalls":%d,"timeouts":%d,"releases":%d}', more.attempts or 0,
    more.failures or 0, more.stalls or 0, more.timeouts or 0, more.releases or 0
  )
  local failed = string.format(
    '{"queue":%s,"id":%s,"run":%d,"task":%s,"key":%s,"priority":%d,"run_at_ms":%.0f,"counters":%s,"error":',
    cjson.encode(q.name), cjson.encode(H.long(job.id)), job.run, job.task and cjson.encode(job.task) or 'null',
    more.key and cjson.encode(more.key) or 'null', job.priority, job.run_at, counters
  ) .. error.text .. '}'
  local wanted = {
    id = shortened(H.long(job.id) .. '/failed/' .. job.run), task = handler[2], payload = job.payload,
    spec = {
      envelope = '{' .. fields_of(more.envelope) .. '"failed":' .. failed .. '}', key = more.key, priority = H.given(policy.on_failure_priority) or job.priority,
    },
  }
  if handler[1] == q.name then
    H.enqueue(q, { wanted }, {})
  else
    H.send(q, handler[1], 'enqueue', wanted)
  end
end

-- what: error, cause, exit, ttl, count (what ended its last attempt, and eats a counter), not_run (no attempt ended with it).
function H.fail(q, job, what)
  local more = job.more
  local event = H.ending(q, job, what.error)
  if what.not_run then event.worker, event.ran = nil, nil end
  event.cause = what.cause
  if job.state == 'active' then H.let_go(q, job.rid) end
  if what.count then
    local counter = what.count == 'snooze' and 'snoozes' or COUNTER[what.count] or 'failures'
    more[counter] = (more[counter] or 0) + 1
  end
  job.state, more.exit, more.error, more.signature = 'failed', what.exit, what.error.text, what.error.signature or '-'
  H.end_times(q, job, what.ttl)
  H.append(q, 'fail', job, event)
  if what.cause == 'corrupt' then H.note(q, 'job', job.id, job.run, what.error.message or 'it cannot be read') end
  enqueue_fail_handler(q, job, what.error)
  H.finish(q, job)
  H.recheck(q, more.key)
end
