-- How long results are kept.

local function keep(q, job, ttl)
  local more = job.more
  more.ttl = ttl
  ttl = ttl or H.result_ttl(q)
  if more.finished_at and more.chain_state ~= 'open' then
    more.free_at = q.now + ttl
    local kept = (more.ended_at or more.finished_at) + H.kept_ms(q, H.outcome(job))
    more.expires_at = math.max(q.now + ttl, kept, more.dedup_until or 0)
    redis.call('ZADD', q.key[job.state], more.expires_at, job.rid)
  end
  H.store(q, job)
end

-- serve set_result_ttl: now, id, ttl_ms, actor
--   reply: a word
H.serve('set_result_ttl', function(call, keys)
  local q = H.acting(keys[1], call)
  local job = H.holding(q, call.id)
  if not job then return 'missing' end
  keep(q, job, call.ttl_ms)
  local message = cjson.encode({ ttl_ms = call.ttl_ms })
  H.append_action(q, { name = 'set_result_ttl', id = job.id, run = job.run, message = message })
  return 'ok'
end)

-- Those that only wait are written together; `rids` and `raws` belong to each other.
local function keep_all(q, rids, raws, ttl)
  local records, rest = {}, ttl and H.rest({ ttl = ttl })
  for index, rid in ipairs(rids) do
    local record = raws[index] and H.keep_plain(raws[index], rest)
    if record then
      records[#records + 1], records[#records + 2] = rid, record
    elseif raws[index] then
      local job = H.load(q, rid)
      if job and not job.more.past then keep(q, job, ttl) end
    end
  end
  H.in_parts(records, function(...) redis.call('HSET', q.key.jobs, ...) end)
end

-- serve keep_runs: now, first, last, ttl_ms
--   reply: a word
H.serve('keep_runs', function(call, keys)
  local q = H.queue(keys[1], call.now)
  for from = call.first, call.last, AT_ONCE do
    local rids = {}
    for run = from, math.min(from + AT_ONCE - 1, call.last) do rids[#rids + 1] = H.rid(run) end
    keep_all(q, rids, redis.call('HMGET', q.key.jobs, unpack(rids)), call.ttl_ms)
  end
  return 'ok'
end)
