-- expire: completed | failed | cancelled -> nothing
-- guard: its retention is over
-- effects: remove the run and everything that points to it, append event

-- Return how many runs are gone, this one and with the first of a chain the others of it that are here; and how many of
-- them had failed.
local function expire(q, rid, index, cause)
  local job, count, failed = H.load(q, rid), 1, 0
  if job then
    local others, theirs = H.forget_others(q, job, 'expire', cause)
    count, failed = count + others, theirs + (job.state == 'failed' and 1 or 0)
    H.append(q, 'expire', job, { gone = true, cause = cause })
    H.remove(q, job)
  end
  redis.call('ZREM', q.key[index], rid)
  return count, failed
end

local function aged(q, limit)
  local gone, failed = 0, 0
  for index in pairs(FINISHED) do
    for _, rid in ipairs(redis.call('ZRANGEBYSCORE', q.key[index], '-inf', q.now, 'LIMIT', 0, limit - gone)) do
      local count, letters = expire(q, rid, index, 'age')
      gone, failed = gone + count, failed + letters
      if gone >= limit then break end
    end
    if gone >= limit then break end
  end
  return gone, failed
end

-- Dead letters beyond the number that the queue keeps; one that still holds its id stays.
local function crowded(q, limit)
  local gone, failed = 0, 0
  local most = H.retention(q, 'failed_count')
  local extra = most and redis.call('ZCARD', q.key.letters) - most or 0
  if extra <= 0 or limit <= 0 then return 0, 0 end
  for _, rid in ipairs(redis.call('ZRANGE', q.key.letters, 0, extra - 1)) do
    local job = H.load(q, rid)
    if not job then
      redis.call('ZREM', q.key.letters, rid)
    elseif job.more.past or job.more.free_at <= q.now then
      local count, letters = expire(q, rid, 'failed', 'count')
      gone, failed = gone + count, failed + letters
    end
    if gone >= limit then break end
  end
  return gone, failed
end

-- serve expire: now, queue, limit, history
--   reply: runs, posted, failed_by_age, failed_by_count, more
H.serve('expire', function(call, keys)
  local limit = call.limit
  local q = H.opened(keys[1], call.now, call.queue)
  local gone, by_age = aged(q, limit)
  local beyond, by_count = crowded(q, limit - gone)
  gone = gone + beyond
  local events = H.trim_log(q, call.history, 10 * limit)
  local answers = H.forget_answers(q, limit)
  local lanes = H.recheck_due(q, limit)
  local more = gone >= limit or events or answers or lanes
  return REPLY.expire({
    runs = gone, posted = redis.call('EXISTS', q.key.outbox) > 0 and 1, failed_by_age = by_age, failed_by_count = by_count,
    more = more and 1,
  })
end)
