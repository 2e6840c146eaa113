-- expire: completed | failed | cancelled -> nothing
-- guard: its retention is over
-- effects: remove the run and everything that points to it, append event

-- Return how many runs are gone: this one, and with the first of a chain the others of it that are here.
local function expire(q, rid, index)
  local job, count = H.load(q, rid), 1
  if job then
    count = count + H.forget_others(q, job, 'expire')
    H.append(q, 'expire', job, { gone = true })
    H.remove(q, job)
  end
  redis.call('ZREM', q.key[index], rid)
  return count
end

local function aged(q, limit)
  local gone = 0
  for index in pairs(FINISHED) do
    for _, rid in ipairs(redis.call('ZRANGEBYSCORE', q.key[index], '-inf', q.now, 'LIMIT', 0, limit - gone)) do
      gone = gone + expire(q, rid, index)
      if gone >= limit then break end
    end
    if gone >= limit then break end
  end
  return gone
end

-- Dead letters beyond the number that the queue keeps; one that still holds its id stays.
local function crowded(q, limit)
  local gone = 0
  local most = H.retention(q, 'failed_count', 1000)
  local extra = redis.call('ZCARD', q.key.letters) - most
  if extra <= 0 or limit <= 0 then return 0 end
  for _, rid in ipairs(redis.call('ZRANGE', q.key.letters, 0, extra - 1)) do
    local job = H.load(q, rid)
    if not job then
      redis.call('ZREM', q.key.letters, rid)
    elseif job.more.past or job.more.free_at <= q.now then
      gone = gone + expire(q, rid, 'failed')
    end
    if gone >= limit then break end
  end
  return gone
end

local function forget_answers(q, limit)
  for _ = 1, limit do
    local oldest = redis.call('LINDEX', q.key.answered, 0)
    local at, request = string.match(oldest or '', '^(%d+):(.*)$')
    if not at or tonumber(at) > q.now - REMEMBERED_MS then return end
    redis.call('LPOP', q.key.answered)
    redis.call('HDEL', q.key.requests, request)
  end
end

H.serve('expire', function(keys, args)
  local arg = H.reader(args)
  local now, name, limit, history = H.now(arg()), arg(), tonumber(arg()), tonumber(arg())
  local q = H.opened(keys[1], now, name)
  local gone = aged(q, limit)
  gone = gone + crowded(q, limit - gone)
  H.trim_log(q, history, math.max(limit, 100000))
  forget_answers(q, limit)
  H.recheck_due(q, limit)
  return { gone, redis.call('EXISTS', q.key.outbox) }
end)
