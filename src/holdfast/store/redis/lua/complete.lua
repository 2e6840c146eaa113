-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, continue or end the chain, start the successor, append event, tell waiters

-- When a run that ends now lets go of its id, and when it is gone.
function H.times_of(q, state, ttl)
  ttl = ttl or H.result_ttl(q)
  return q.now + ttl, q.now + math.max(ttl, H.kept_ms(q, state))
end

-- The run ends now; a later job of a chain goes with the chain.
function H.end_times(q, job, ttl)
  local more, own = job.more, ttl or job.more.ttl
  local free_at, expires_at = H.times_of(q, job.state, own)
  more.finished_at, more.free_at, more.expires_at = q.now, free_at, nil
  if own or not H.goes_with_chain(more.chain) then more.expires_at = math.max(expires_at, more.dedup_until or 0) end
end

-- The run is over, in its new state; so is its chain, and whoever waits for it hears of it.
function H.over(q, job)
  redis.call('ZADD', q.key[job.state], job.more.expires_at or '+inf', job.rid)
  if job.state == 'failed' then redis.call('ZADD', q.key.letters, job.run, job.rid) end
  H.store(q, job)
  H.abandon(q, job)
  if not job.more.chain then return H.chain_over(q, job, job.state) end
  H.end_chain(q, job, job.state)
  H.tell_watchers(q, job, job.state)
end

function H.complete(q, job, entry)
  if entry.next then return H.go_on(q, job, entry) end
  H.let_go(q, job.rid)
  local event = H.ending(q, job)
  job.state, job.result = 'completed', entry.body
  job.more.exit, job.more.error = 'complete', nil
  H.end_times(q, job, entry.ttl)
  H.append(q, 'complete', job, event)
  H.over(q, job)
end

-- The watchers of these ids, by index, where anybody watches anything; a few ids are looked for at once.
local function watchers_of(q, entries, tokens)
  if #tokens > MOST_GIVEN and not H.any(q, 'watchers') then return {} end
  local ids = {}
  for index, at in ipairs(tokens) do ids[index] = string.sub(entries[at].token, 11) end
  return redis.call('HMGET', q.key.watchers, unpack(ids))
end

-- Many plain completions are written together; the words have gaps where an entry needs a closer look.
function H.complete_all(q, session, entries)
  local words, plain, rids = {}, {}, {}
  for index, entry in ipairs(entries) do
    if entry.more == '' then
      plain[#plain + 1] = index
      rids[#rids + 1] = string.sub(entry.token, 1, 6)
    end
  end
  if #plain == 0 then return words end
  H.start_log(q)
  local raws, watchers = redis.call('HMGET', q.key.jobs, unpack(rids)), watchers_of(q, entries, plain)
  local records, ends, gone, done, told, at = {}, {}, {}, {}, {}, 0
  for number, index in ipairs(plain) do
    local entry, rid = entries[index], rids[number]
    local watched = watchers[number] or false
    if raws[number] and not done[rid] then
      local record, expires_at = H.complete_plain(q, session, entry.token, raws[number], entry.body, watched and true)
      if record then
        done[rid], words[index] = true, 'ok completed'
        records[at + 1], records[at + 2], ends[at + 1], ends[at + 2] = rid, record, expires_at, rid
        at, gone[#gone + 1] = at + 2, rid
        if watched then told[#told + 1] = { string.sub(entry.token, 11), H.run_of(rid), watched, entry.body } end
      end
    end
  end
  if at > 0 then
    redis.call('HSET', q.key.jobs, unpack(records))
    redis.call('ZADD', q.key.completed, unpack(ends))
    redis.call('HDEL', q.key.active, unpack(gone))
    H.tell_all(q, told, 'completed')
  end
  return words
end
