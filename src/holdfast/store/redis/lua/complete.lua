-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, continue or end the chain, start the successor, append event, tell waiters

-- How long a run that ends now holds its id, and when it is gone.
function H.end_times(q, job, ttl)
  local more, kept = job.more, H.kept_ms(q, job.state)
  ttl = ttl or more.ttl or H.result_ttl(q)
  more.finished_at, more.free_at = q.now, q.now + ttl
  more.expires_at = math.max(q.now + math.max(ttl, kept), more.dedup_until or 0)
end

-- The run is over, in its new state; its successor starts, and its waiters hear of it.
function H.over(q, job)
  redis.call('ZADD', q.key[job.state], job.more.expires_at, job.rid)
  if job.state == 'failed' then redis.call('ZADD', q.key.letters, job.run, job.rid) end
  H.store(q, job)
  H.succeed(q, job)
  H.tell_watchers(q, job, job.state)
end

-- The record says that the run completed, and so does the log; the record is not stored yet.
local function completed(q, job, entry)
  local event = H.ending(q, job)
  job.state, job.result = 'completed', entry.body
  job.more.exit, job.more.error = 'complete', nil
  H.end_times(q, job, entry.ttl)
  H.append(q, 'complete', job, event)
end

function H.complete(q, job, entry)
  H.let_go(q, job.rid)
  completed(q, job, entry)
  H.over(q, job)
end

-- Many plain completions: nobody waits for them, nothing follows from them, and all is written together.
function H.complete_all(q, session, entries)
  local rids, words, records, ends, gone, done = {}, {}, {}, {}, {}, {}
  for index, entry in ipairs(entries) do rids[index] = H.rid(entry.run) end
  local raws = redis.call('HMGET', q.key.jobs, unpack(rids))
  for index, entry in ipairs(entries) do
    local rid = rids[index]
    local fine, job = pcall(H.decode, rid, raws[index] or '')
    local plain = fine and job.state == 'active' and not done[rid]
    if plain and H.word(job, session, 'complete', entry.run, entry.attempt, entry.id) == 'ok' then
      completed(q, job, entry)
      done[rid] = true
      records[#records + 1], records[#records + 2] = rid, H.encode(job)
      ends[#ends + 1], ends[#ends + 2] = job.more.expires_at, rid
      gone[#gone + 1] = rid
      words[index] = 'ok completed'
    end
  end
  if #gone > 0 then
    redis.call('HSET', q.key.jobs, unpack(records))
    redis.call('ZADD', q.key.completed, unpack(ends))
    redis.call('HDEL', q.key.active, unpack(gone))
  end
  return words -- with gaps, where an entry needs a closer look
end
