-- The log: one entry for each transition. The id stands alone, because it may be bytes.

local EVENT = '>Bc0c1I6I4I7I7I2I6I6I2c0I2c0'

-- what: worker, cause, wait, ran, error_type, signature, message, progress, payload (keep it), gone (no state).
function H.append(q, transition, job, what)
  local more, task = job.more, job.task or ''
  what = what or NOTHING
  local worker, rest = what.worker or '', nil
  if more.failures or more.stalls or more.timeouts or more.releases then
    rest = { counters = { more.failures or 0, more.stalls or 0, more.timeouts or 0, more.releases or 0 } }
  end
  if more.key or what.cause or what.error_type or what.message or what.progress then
    rest = rest or {}
    rest.key, rest.cause, rest.error_type = more.key, what.cause, what.error_type
    rest.signature, rest.message, rest.progress = what.signature, what.message, what.progress
  end
  local text = struct.pack(
    EVENT, #transition, transition, what.gone and '-' or LETTER[job.state], job.run, more.attempts or 0, q.now,
    job.run_at, job.priority + 1000, what.wait and what.wait + 1 or 0, what.ran and what.ran + 1 or 0, #task, task,
    #worker, worker
  )
  if rest then text = text .. cmsgpack.pack(rest) end
  q.next_event = q.next_event or q.epoch .. '-*'
  if what.payload then
    redis.call('XADD', q.key.events, q.next_event, 'i', job.id, 'e', text, 'p', job.payload)
  else
    redis.call('XADD', q.key.events, q.next_event, 'i', job.id, 'e', text)
  end
end

function H.keeps_payloads(q)
  return q.settings.history == 'payloads'
end

-- What an event says of an attempt that has just ended.
function H.ending(q, job, error)
  return {
    worker = job.more.session, ran = math.max(0, q.now - (job.more.claimed_at or q.now)),
    error_type = error and error.type, signature = error and error.signature,
    message = error and not error.signature and error.message or nil,
  }
end

-- Errors: `text` is the stored JSON; `signature` comes with those of handlers.

function H.error(kind, type, message)
  local text = cjson.encode({ type = type, message = message, kind = kind, traceback = '' })
  return { text = text, type = type, message = message }
end
