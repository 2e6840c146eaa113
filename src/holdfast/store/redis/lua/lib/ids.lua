-- Ids: which run holds one, and which earlier runs of it are kept.

function H.latest_past(q, id)
  local text = redis.call('HGET', q.key.past, id)
  if not text then return nil end
  local runs = H.unpacked(text) or {}
  for index = #runs, 1, -1 do
    local job = H.load(q, H.rid(runs[index]))
    if job and not H.is_gone(q, job) then return job end
  end
end

function H.to_past(q, job)
  local text = redis.call('HGET', q.key.past, job.id)
  local runs = H.unpacked(text) or {}
  runs[#runs + 1] = job.run
  table.sort(runs)
  redis.call('HSET', q.key.past, job.id, cmsgpack.pack(runs))
end

local function without(runs, run)
  local kept = {}
  for _, each in ipairs(runs) do
    if each ~= run then kept[#kept + 1] = each end
  end
  return kept
end

local function drop_from(key, field, run)
  local text = redis.call('HGET', key, field)
  if not text then return end
  local kept = without(H.unpacked(text) or {}, run)
  if #kept > 0 then redis.call('HSET', key, field, cmsgpack.pack(kept)) else redis.call('HDEL', key, field) end
end

-- The run holds its id no longer; the caller stores the record.
function H.free_id(q, job)
  if job.more.past then return end
  job.more.past = true
  if redis.call('HGET', q.key.ids, job.id) == job.rid then redis.call('HDEL', q.key.ids, job.id) end
  H.to_past(q, job)
end

-- Return the run that holds an id. A finished one whose TTL is over lets go of it here.
function H.holding(q, id)
  local rid = redis.call('HGET', q.key.ids, id)
  if not rid then return nil end
  local job = H.load(q, rid) or H.load(q, rid) -- one that was set aside a moment ago is a dead letter now
  if not job then
    redis.call('HDEL', q.key.ids, id)
    return nil
  end
  if job.more.free_at and job.more.free_at <= q.now then
    H.free_id(q, job)
    H.store(q, job)
    return nil
  end
  return job
end

function H.is_gone(q, job)
  return job.more.expires_at ~= nil and job.more.expires_at <= q.now
end

-- Return the run that holds an id, or else its latest that is still kept.
function H.answering(q, id)
  return H.holding(q, id) or H.latest_past(q, id)
end

-- Deduplication keys: the runs that were taken in under each.

function H.dedup_field(task, key)
  return (task and (#task .. ':' .. task) or ':') .. '/' .. key
end

function H.note_dedup(q, job)
  local field = H.dedup_field(job.task, job.more.dedup)
  local text = redis.call('HGET', q.key.dedup, field)
  local runs = without(H.unpacked(text) or {}, job.run)
  runs[#runs + 1] = job.run
  table.sort(runs)
  redis.call('HSET', q.key.dedup, field, cmsgpack.pack(runs))
end

function H.forget_dedup(q, job)
  if job.more.dedup then drop_from(q.key.dedup, H.dedup_field(job.task, job.more.dedup), job.run) end
end

-- The run and everything that points to it is gone.
function H.remove(q, job)
  H.take_away(q, job)
  if job.state == 'active' then H.let_go(q, job.rid) end
  if FINISHED[job.state] then
    redis.call('ZREM', q.key[job.state], job.rid)
    if job.state == 'failed' then redis.call('ZREM', q.key.letters, job.rid) end
  end
  if job.more.past then
    drop_from(q.key.past, job.id, job.run)
  elseif redis.call('HGET', q.key.ids, job.id) == job.rid then
    redis.call('HDEL', q.key.ids, job.id)
  end
  H.sign(q, job, nil)
  H.forget_dedup(q, job)
  H.forget_member(q, job)
  H.forget_blockers(q, job)
  redis.call('HDEL', q.key.jobs, job.rid)
end

-- Ids of 32 hexadecimal digits are kept as 16 bytes behind a mark; others that begin like one, behind a zero byte.

local hexadecimal = {}

function H.long(id)
  local mark = string.byte(id, 1)
  if mark == 0 then return string.sub(id, 2) end
  if mark ~= 1 then return id end
  if not hexadecimal[0] then
    for byte = 0, 255 do hexadecimal[byte] = string.format('%02x', byte) end
  end
  local bytes = { string.byte(id, 2, -1) }
  for index, byte in ipairs(bytes) do bytes[index] = hexadecimal[byte] end
  return table.concat(bytes)
end

function H.short(id)
  local mark = string.byte(id, 1)
  if mark == 0 or mark == 1 then return '\0' .. id end
  if #id == 32 and string.find(id, '^[0-9a-f]+$') then
    return '\1' .. string.gsub(id, '..', function(pair) return string.char(tonumber(pair, 16)) end)
  end
  return id
end
