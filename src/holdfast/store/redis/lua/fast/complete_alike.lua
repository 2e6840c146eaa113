-- The fast path of `complete_plain` in fast/complete.lua, for a record that is like the one before in all but its names and
-- payload, and a result of the same size: the event ends alike, and the new record begins alike.

local append, COMPLETED = H.append_bytes, H.bytes.COMPLETED
local MOST_UNLIKE = 3 -- so many in a row, and the call looks no further

local function is_alike(kind, token, id, raw, result, watched, holder)
  return #raw == kind.size and #result == kind.result_size and watched == kind.watched
    and string.sub(raw, 1, kind.names_at - 1) == kind.head and string.sub(token, 7, 10) == kind.attempt
    and string.sub(raw, kind.names_at, kind.task_at - 1) == id
    and string.sub(raw, kind.task_at, kind.task_to) == kind.task and (not kind.key or holder == kind.holder)
end

-- What the next record may have in common with this one.
local function note_kind(q, kind, token, raw, result, record)
  local names_at, task_size = kind.names_at, string.byte(raw, 5)
  kind.attempt, kind.head = string.sub(token, 7, 10), string.sub(raw, 1, names_at - 1)
  kind.task_at = names_at + #token - 10
  kind.task_to = kind.task_at + task_size - 1
  kind.task = string.sub(raw, kind.task_at, kind.task_to)
  kind.size, kind.result_size = #raw, #result
  kind.record = string.sub(record, 1, #record - #result - #raw + names_at - 1)
  q.completed_kind = kind
end

function H.complete_alike(q, session, token, raw, result, watched, holder)
  local kind, unlike, id = q.completed_kind, q.unlike or 0, string.sub(token, 11)
  if kind and is_alike(kind, token, id, raw, result, watched, holder) then
    q.unlike = 0
    append(q, id, COMPLETED .. string.sub(token, 1, 6) .. kind.tail)
    return kind.record .. string.sub(raw, kind.names_at) .. result, kind.expires_at, kind.key
  end
  local record, expires_at, key, names_at, tail = H.complete_plain(q, session, token, raw, result, watched, holder)
  q.unlike, q.completed_kind = unlike + 1, nil
  if record and unlike < MOST_UNLIKE then
    kind = { names_at = names_at, tail = tail, key = key, holder = holder, watched = watched, expires_at = expires_at }
    note_kind(q, kind, token, raw, result, record)
  end
  return record, expires_at, key
end
