-- The fast path of `insert_any` in lib/batch.lua, for new plain jobs.

local bytes, append = H.bytes, H.append_bytes
local new_record, new_in_chain, enveloped = bytes.new, bytes.new_in_chain, bytes.enveloped
local ENQUEUED = '\7enqueue' .. LETTER.waiting -- how the event begins

-- Whether a job that is asked for has nothing unusual, but that its end is watched, and how long its result is kept or
-- its envelope.
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

-- The spec of a job, decoded: `=` and an envelope, or JSON. `rest` is what a plain one has in its record, and `carried`
-- in its event, made once for many.
function H.spec(text)
  if string.byte(text) == 61 then return H.enveloped_spec(string.sub(text, 2)) end
  local spec = H.json(text)
  if spec.plain and not spec.rest then
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
    local event = struct.pack('>I4', 0) .. now .. now .. bytes.NORMAL .. H.event_times()
    new = { event = event, enqueued_at = string.sub(now, 2), member = bytes.NORMAL .. now, task = false, tail = '' }
    q.new = new
  end
  if new.task ~= task then -- many have the same
    new.task, new.tail = task, new.event .. bytes.tail(bytes.session(''), task)
  end
  local tail, rest = new.tail, spec.rest
  if spec.carried then tail = tail .. spec.carried end
  append(q, id, ENQUEUED .. rid .. tail)
  if chain then return new_in_chain(new.enqueued_at, id, task, payload, rest, chain), new.member .. rid end
  return new_record(new.enqueued_at, id, task, payload, rest), new.member .. rid
end
