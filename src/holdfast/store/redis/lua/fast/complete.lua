-- The fast path of `complete` in transition/complete.lua, for plain jobs in a queue where nothing follows from them.

local bytes, append = H.bytes, H.append_bytes
local active, head, life, names, completed = bytes.active, bytes.head, bytes.life, bytes.names, bytes.completed
local has_rest, rest_at, keyed = bytes.has_rest, bytes.rest_at, bytes.keyed
local session_of, tail_of, now_of = bytes.session, bytes.tail, bytes.now
local COMPLETED = '\8complete' .. LETTER.completed -- how the event begins

-- How the life of a run that completes now ends, and when it is gone. A later job of a chain goes with the chain.
local function ends_now(q, made, watched, with_chain)
  local kind = with_chain and 'chain' or watched
  local ending = q.ending
  if not ending or ending.kind ~= kind then
    local free_at, expires_at = H.times_of(q, 'completed')
    expires_at = math.max(expires_at, watched and q.now + KEPT_FOR_WATCHERS_MS or 0)
    local text = bytes.ends(q.now, free_at, with_chain and 0 or expires_at, made.named)
    ending = { kind = kind, text = text, expires_at = with_chain and '+inf' or expires_at }
    q.ending = ending
  end
  return ending.text, ending.expires_at
end

local function ran_since(q, claimed_at)
  if q.ran_from ~= claimed_at then
    q.ran_from = claimed_at
    q.ran = H.event_times(nil, math.max(0, q.now - struct.unpack('>I7', claimed_at)))
  end
  return q.ran
end

-- Append the event of a run that the session holds under this token (run, attempt, id). Return the end of its head and
-- of its life, its key, where its id begins, and how the event ends; nil when it is not held so. `holder` is what the queue
-- has of a run that may have a key.
local function append_completed(q, made, token, raw, flags, holder)
  local at, when = head(raw, flags)
  local attempt, claimed_at, after = life(raw, at, made.held)
  if not attempt or attempt ~= string.sub(token, 7, 10) then return nil end
  local names_at, key = after, nil
  if has_rest(flags) then names_at, key = rest_at(raw, after) end
  if not names_at or (key and holder ~= made.holder .. '=' .. key) then return nil end
  local id, task = names(raw, names_at)
  if id ~= string.sub(token, 11) then return nil end
  local tail = attempt .. now_of(q) .. when .. ran_since(q, claimed_at) .. tail_of(made, task)
  if key then tail = tail .. keyed(key) end
  append(q, id, COMPLETED .. string.sub(token, 1, 6) .. tail)
  return at, after, key, names_at, tail
end

-- A run that the session holds is completed, and the log says so: its new record, when that goes, its key, where its id
-- begins, and how the event ends. Nil when it is not plain, or not held under this token.
function H.complete_plain(q, session, token, raw, result, watched, holder)
  local flags = active(raw, false)
  if not flags then return nil end
  local made = session_of(session)
  local at, after, key, names_at, tail = append_completed(q, made, token, raw, flags, holder)
  if not at then return nil end
  local ends, expires_at = ends_now(q, made, watched)
  return completed(raw, flags, at, after, ends, result), expires_at, key, names_at, tail
end

bytes.ends_now, bytes.append_completed = ends_now, append_completed -- which chains that continue use, too
bytes.COMPLETED = COMPLETED

-- The watchers of these ids, by index, where any run is watched; a few ids are looked for at once.
local function watchers_of(q, entries, tokens)
  if #tokens > MOST_HANDED_OVER and not H.any(q, 'watchers') then return {} end
  local ids = {}
  for index = 1, #tokens do ids[index] = string.sub(entries[tokens[index]].token, 11) end
  return redis.call('HMGET', q.key.watchers, unpack(ids))
end

-- Many plain completions are written together; the words have gaps where an entry needs a closer look.
function H.complete_all_plain(q, session, entries)
  local words, plain, rids, count = {}, {}, {}, 0
  for index = 1, #entries do
    local entry = entries[index]
    if entry.more == '' then
      count = count + 1
      plain[count], rids[count] = index, string.sub(entry.token, 1, 6)
    end
  end
  if count == 0 then return words end
  H.start_log(q)
  local raws, watchers = redis.call('HMGET', q.key.jobs, unpack(rids)), watchers_of(q, entries, plain)
  local holders = H.any(q, 'lanes') and redis.call('HMGET', q.key.active, unpack(rids)) or NOTHING
  local records, ends, gone, done, watched_ends, at, watched_count = {}, {}, {}, {}, {}, 0, 0
  local freed = H.tally()
  for number = 1, count do
    local index, rid = plain[number], rids[number]
    local entry = entries[index]
    local watched = watchers[number] or false
    if raws[number] and not done[rid] then
      local record, expires_at, key =
        H.complete_alike(q, session, entry.token, raws[number], entry.body, watched and true, holders[number])
      if record then
        if key then H.count(freed, key, -1) end
        done[rid], words[index] = true, 'ok completed'
        records[at + 1], records[at + 2], ends[at + 1], ends[at + 2] = rid, record, expires_at, rid
        at = at + 2
        gone[at / 2] = rid
        if watched then
          watched_count = watched_count + 1
          watched_ends[watched_count] = { string.sub(entry.token, 11), rid, watched, entry.body }
        end
      end
    end
  end
  if at > 0 then
    redis.call('HSET', q.key.jobs, unpack(records))
    redis.call('ZADD', q.key.completed, unpack(ends))
    redis.call('HDEL', q.key.active, unpack(gone))
    H.count_and_recheck(q, freed)
    H.notify_all(q, watched_ends, 'completed')
  end
  return words
end
