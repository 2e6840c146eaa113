-- The fast path of `claim_any` in transition/claim.lua, for a plain job that never ran.

local bytes, append = H.bytes, H.append_bytes
local waiting, head, names, started = bytes.waiting, bytes.head, bytes.names, bytes.started
local has_rest, readable_rest, keyed = bytes.has_rest, bytes.readable_rest, bytes.keyed
local session_of, tail_of, now_of = bytes.session, bytes.tail, bytes.now
local CLAIMED = '\5claim' .. LETTER.active -- how the event begins: the size and name of the transition, the state

-- The attempt, and for how long the job waited, as an event has it.
local function waited_since(q, when)
  if q.waited_from ~= when then -- many have the same
    q.waited_from = when
    q.waited = bytes.FIRST .. now_of(q) .. when .. H.event_times(math.max(0, q.now - struct.unpack('>I7', when)))
  end
  return q.waited
end

-- The session holds the job, and the log says so: its new record, its holder, its time-out, where its id begins, its task,
-- and how the event ends. Nil when it is not plain.
function H.claim_plain(q, session, rid, raw)
  local flags = waiting(raw)
  if not flags then return nil end
  local made = session_of(session)
  local at, when = head(raw, flags)
  local names_at, key = at, nil
  if has_rest(flags) then names_at, key = readable_rest(raw, at) end
  if not names_at then return nil end
  local id, task = names(raw, names_at)
  if not id then return nil end
  local tail, holder = waited_since(q, when) .. tail_of(made, task), made.holder
  if key then tail, holder = tail .. keyed(key), holder .. '=' .. key end
  append(q, id, CLAIMED .. rid .. tail)
  return started(raw, flags, at, now_of(q), made.held), holder, H.task_timeout(q, task) or -1, names_at, task, tail
end

-- How the event of a claim ends by which a session has a new job without a key that never waited.
function bytes.claimed_at_once(q, session, task)
  return waited_since(q, now_of(q) .. bytes.NORMAL) .. tail_of(session_of(session), task)
end

bytes.CLAIMED = CLAIMED
