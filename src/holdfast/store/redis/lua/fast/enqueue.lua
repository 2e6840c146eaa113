-- The fast path of `insert_any` in lib/batch.lua, for new plain jobs.

local bytes, append = H.bytes, H.append_bytes
local new_head, new_in_chain, enveloped = bytes.new_head, bytes.new_in_chain, bytes.enveloped
local ENQUEUED = '\128' -- how the event begins: SHORT in lib/log.lua

-- Whether a job that is asked for has nothing unusual, but that its end is watched, and how long its result is kept or
-- its key and its envelope.
function H.is_plain(wanted)
  return wanted.spec.plain and (not wanted.task or #wanted.task < 256)
end

-- The spec of a job with nothing unusual but an envelope. The last is known: many jobs have the same.
local last = NOTHING

function H.enveloped_spec(envelope)
  if last.envelope ~= envelope then
    local rest, carried = enveloped(envelope)
    last = { plain = true, envelope = envelope, rest = rest, carried = carried }
  end
  return last
end

-- The same with a key, and perhaps an envelope.
local function keyed_spec(key, envelope)
  local carried = envelope and H.packed({ key = key, envelope = envelope }) or bytes.keyed(key)
  return struct.pack('>I4', #carried) .. carried, carried
end

-- The spec of a job, decoded: `=` and an envelope, `@` and a key, or JSON. `rest` is what a plain one has in its record, and
-- `carried` in its event, made once for many.
function H.spec(text)
  local mark = string.byte(text)
  if mark == 61 then return H.enveloped_spec(string.sub(text, 2)) end
  if mark == 64 then
    local key = string.sub(text, 2)
    local rest, carried = keyed_spec(key)
    return { plain = true, key = key, rest = rest, carried = carried }
  end
  local spec = H.json(text)
  if spec.keyed and not spec.rest then
    spec.plain, spec.rest, spec.carried = true, keyed_spec(spec.key, spec.envelope)
  elseif spec.plain and not spec.rest then
    if spec.envelope then
      spec.rest, spec.carried = enveloped(spec.envelope)
    elseif spec.ttl then
      spec.rest = H.rest({ ttl = spec.ttl })
    end
  end
  return spec
end

-- What new plain jobs have in common that come with one call: when they came.
function H.new_plain(q)
  local new = q.new
  if not new then
    local now = bytes.now(q)
    new = { now = now, enqueued_at = string.sub(now, 2), member = bytes.NORMAL .. now }
    q.new = new
  end
  return new
end

-- What those have in common that are alike in task, sizes and rest: how their records begin, and how their events end.
local function alike(q, id, task, payload, spec)
  local new = H.new_plain(q)
  local event = new.now .. struct.pack('>I2', #task) .. task .. (spec.carried or '')
  local kind = { id_size = #id, task = task, payload_size = #payload, rest = spec.rest, event = event }
  kind.head = new_head(new.enqueued_at, #id, #task, #payload, spec.rest)
  q.new_kind = kind
  return kind
end

-- Many are like the one before.
function H.kind_of_new(q, id, task, payload, spec)
  local kind = q.new_kind
  if kind and kind.task == task and kind.id_size == #id and kind.payload_size == #payload and kind.rest == spec.rest then
    return kind
  end
  return alike(q, id, task, payload, spec)
end

-- A new job waits from now on, and the log says so: its record and where it waits. `spec` is a plain one; `chain` is
-- that of a later job.
function H.enqueue_plain(q, rid, id, task, payload, spec, chain)
  local kind, new = H.kind_of_new(q, id, task, payload, spec), q.new
  append(q, id, ENQUEUED .. rid .. kind.event)
  if chain then return new_in_chain(new.enqueued_at, id, task, payload, spec.rest, chain), new.member .. rid end
  return kind.head .. id .. task .. payload, new.member .. rid
end

bytes.ENQUEUED = ENQUEUED
