-- The log: one entry for each transition. The id stands alone, because it may be bytes.

-- transition, state, run, attempt, when, run_at, priority, waited, ran, task, worker; a time is kept one larger than it is.
local EVENT = '>Bc0c1I6I4I7I7I2I6I6I2c0I2c0'
-- The same for an `enqueue` of a job that waits from now on and has the usual priority, which most are: run, when, task.
local SHORT, SHORT_MARK = '>BI6I7I2c0', 128
-- What somebody may ask for: its events have the actor, if there is one; but what follows from that at a dependant is nobody's.
local ATTRIBUTED = { cancel = true, promote = true, requeue = true, delete = true, complete = true }
local ENVELOPED = { enqueue = true, update = true, requeue = true } -- what a job carries is in the events that set it

local function is_short(q, transition, job)
  return transition == 'enqueue' and job.state == 'waiting' and job.run_at == q.now and job.priority == 0 and not job.more.attempts
end

local function event_text(q, transition, job, what)
  local task, worker = job.task or '', what.worker or ''
  if is_short(q, transition, job) then return struct.pack(SHORT, SHORT_MARK, job.run, q.now, #task, task) end
  return struct.pack(
    EVENT, #transition, transition, what.gone and '-' or LETTER[job.state], job.run, job.more.attempts or 0, q.now,
    job.run_at, job.priority + HIGHEST_PRIORITY, what.wait and what.wait + 1 or 0, what.ran and what.ran + 1 or 0, #task, task,
    #worker, worker
  )
end

-- what: worker, cause, wait, ran, error_type, signature, message, progress, payload (keep it), gone (no state),
-- envelope (another than the job's own).
function H.append(q, transition, job, what)
  local more, rest = job.more, nil
  what = what or NOTHING
  if more.failures or more.stalls or more.timeouts or more.releases then
    rest = { counters = { more.failures or 0, more.stalls or 0, more.timeouts or 0, more.releases or 0 } }
  end
  local envelope = what.envelope
  if envelope == nil then envelope = ENVELOPED[transition] and more.envelope end
  local actor = q.actor and (ATTRIBUTED[transition] and what.cause ~= 'blocker' or transition == 'operate') and q.actor
  if more.key or what.cause or what.error_type or what.message or what.progress or envelope or actor then
    rest = rest or {}
    rest.actor = actor or nil
    rest.key, rest.cause, rest.error_type = more.key, what.cause, what.error_type
    rest.signature, rest.message, rest.progress = what.signature, what.message, what.progress
    rest.envelope = envelope or nil
  end
  local text = event_text(q, transition, job, what)
  if rest then text = text .. H.packed(rest) end
  q.next_event = q.next_event or q.epoch .. '-*'
  if what.payload then
    redis.call('XADD', q.key.events, q.next_event, 'i', job.id, 'e', text, 'p', job.payload)
  else
    redis.call('XADD', q.key.events, q.next_event, 'i', job.id, 'e', text)
  end
end

-- An action that is no transition. done: name, message; actor, if it is not that of the call; id (as keys have it), run, task,
-- key and worker of what it was about.
function H.append_action(q, done)
  q.actor = done.actor or q.actor
  local about = {
    id = done.id or '', run = done.run or 0, task = done.task, priority = 0, run_at = 0, more = { key = done.key },
  }
  H.append(q, 'operate', about, { gone = true, cause = done.name, message = done.message, worker = done.worker })
end

-- How long a job waited, and ran, as an event has it.
function H.event_times(wait, ran)
  return struct.pack('>I6I6', wait and wait + 1 or 0, ran and ran + 1 or 0)
end

-- An event whose bytes are put together already, by a fast path.
function H.append_bytes(q, id, text)
  redis.call('XADD', q.key.events, q.next_event, 'i', id, 'e', text)
end

function H.start_log(q)
  q.next_event = q.next_event or q.epoch .. '-*'
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

-- Named readers of the log: what they have still to read is kept for them, up to a bound.

-- The first event that some reader has still to read; nil when there is no reader.
local function unread(q)
  local lowest
  for _, text in ipairs(redis.call('HVALS', q.key.readers)) do
    local seq, at = string.match(text, '^(%d+) (%d+)$')
    if tonumber(at) > q.now - READER_FORGOTTEN_MS then lowest = math.min(lowest or tonumber(seq), tonumber(seq)) end
  end
  return lowest
end

-- The log keeps so many events, and what readers lack; at most `limit` go at once. True when there are more to go.
function H.trim_log(q, history, limit)
  local length = redis.call('XLEN', q.key.events)
  if length <= history then return false end
  local first = redis.call('XRANGE', q.key.events, '-', '+', 'COUNT', 1)[1][1]
  local epoch, seq = string.match(first, '^(%d+)-(%d+)$')
  seq = tonumber(seq)
  local until_seq = seq + length - history
  local wanted = unread(q)
  if wanted then until_seq = math.min(until_seq, math.max(wanted, seq + length - MOST_BEHIND * history)) end
  if until_seq <= seq then return false end
  local step = math.min(until_seq, seq + limit)
  redis.call('XTRIM', q.key.events, 'MINID', '=', epoch .. '-' .. string.format('%.0f', step))
  return step < until_seq
end

-- Far more events than the history are not kept, though no worker is there to sweep: looked at now and then.
function H.bound_log(q, history, count)
  if count < 100 and q.now % 16 > 0 then return end
  local length = redis.call('XLEN', q.key.events)
  if length <= 2 * history then return end
  local most = redis.call('HLEN', q.key.readers) > 0 and MOST_BEHIND * history or history
  if length > most then redis.call('XTRIM', q.key.events, 'MAXLEN', '~', most) end
end
