-- The fast path of `insert_any` in lib/batch.lua, for new plain jobs.

local bytes, append = H.bytes, H.append_bytes
local new_record, new_in_chain, enveloped = bytes.new, bytes.new_in_chain, bytes.enveloped
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

-- A new job waits from now on, and the log says so: its record and where it waits. `spec` is a plain one; `chain` is
-- that of a later job.
function H.enqueue_plain(q, rid, id, task, payload, spec, chain)
  local new = q.new
  if not new then
    local now = bytes.now(q)
    new = { now = now, enqueued_at = string.sub(now, 2), member = bytes.NORMAL .. now, task = false, tail = '' }
    q.new = new
  end
  if new.task ~= task then -- many have the same
    new.task, new.tail = task, new.now .. struct.pack('>I2', #task) .. task
  end
  local tail, rest = new.tail, spec.rest
  if spec.carried then tail = tail .. spec.carried end
  append(q, id, ENQUEUED .. rid .. tail)
  if chain then return new_in_chain(new.enqueued_at, id, task, payload, rest, chain), new.member .. rid end
  return new_record(new.enqueued_at, id, task, payload, rest), new.member .. rid
end
