-- The fast path of `claim_plain` in fast/claim.lua, for a job whose record is like the one before in all but its id and
-- payload: the event ends alike, and the new record begins alike.

local append, CLAIMED = H.append_bytes, H.bytes.CLAIMED
local MOST_UNLIKE = 3 -- so many in a row, and the call looks no further

local function is_alike(kind, session, raw)
  return #raw == kind.size and session == kind.session and string.sub(raw, 1, kind.names_at - 1) == kind.head
    and string.sub(raw, kind.task_at, kind.task_to) == kind.task
end

-- What the next record may have in common with this one.
local function note_kind(q, kind, raw, record)
  local names_at, task = kind.names_at, kind.task
  local id_size = struct.unpack('>I2', raw, 3)
  kind.size, kind.head = #raw, string.sub(raw, 1, names_at - 1)
  kind.task_at, kind.task_to = names_at + id_size, names_at + id_size + #task - 1
  kind.record = string.sub(record, 1, #record - #raw + names_at - 1)
  q.claimed_kind = kind
end

function H.claim_alike(q, session, rid, raw)
  local kind, unlike = q.claimed_kind, q.unlike_claims or 0
  if kind and is_alike(kind, session, raw) then
    q.unlike_claims = 0
    append(q, string.sub(raw, kind.names_at, kind.task_at - 1), CLAIMED .. rid .. kind.tail)
    return kind.record .. string.sub(raw, kind.names_at), kind.holder, kind.timeout
  end
  local record, holder, timeout, names_at, task, tail = H.claim_plain(q, session, rid, raw)
  q.unlike_claims, q.claimed_kind = unlike + 1, nil
  if record and unlike < MOST_UNLIKE then
    kind = {
      session = session, names_at = names_at, task = task, tail = tail, holder = holder, timeout = timeout,
    }
    note_kind(q, kind, raw, record)
  end
  return record, holder, timeout
end
