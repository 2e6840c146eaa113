-- The fast path of `insert_any` in lib/batch.lua, for new plain jobs.

local bytes, append = H.bytes, H.append_bytes
local new_record, new_in_chain = bytes.new, bytes.new_in_chain
local ENQUEUED = '\7enqueue' .. LETTER.waiting -- how the event begins

-- Whether a job that is asked for has nothing unusual, but that its end is watched, or how long its result is kept.
function H.is_plain(wanted)
  return wanted.spec.plain and (not wanted.task or #wanted.task < 256)
end

-- A new job waits from now on, and the log says so: its record and where it waits. `rest` is what `H.rest` made; `chain`
-- is that of a later job.
function H.enqueue_plain(q, rid, id, task, payload, rest, chain)
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
  append(q, id, ENQUEUED .. rid .. new.tail)
  if chain then return new_in_chain(new.enqueued_at, id, task, payload, chain), new.member .. rid end
  return new_record(new.enqueued_at, id, task, payload, rest), new.member .. rid
end
