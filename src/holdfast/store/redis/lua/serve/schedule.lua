-- Schedules. Python decides, on what it read; here it is written only if the schedule was not changed meanwhile (its
-- revision), and the jobs of its ticks are taken in with the same step.

-- A schedule is stored as its revision, a colon, and a body that only Python reads.
local function revision_of(stored)
  return stored and string.match(stored, '^([^:]*):') or ''
end

local function write(q, call)
  local name, next_at, body = call.name, call.next_at, call.body
  if not body then
    redis.call('HDEL', q.key.schedules, name)
  else
    redis.call('HSET', q.key.schedules, name, call.revision .. ':' .. body)
  end
  if body and next_at then
    redis.call('ZADD', q.key.ticks, next_at, name)
  else
    redis.call('ZREM', q.key.ticks, name)
  end
end

-- serve put_schedule: now, queue, name, expected, revision, next_at, body, history, conflict, action, count
--   then, over and over, job_arguments: id, task, payload, spec
--   reply: reply, enqueued
H.serve('put_schedule', function(call, keys, args, at)
  local q = H.opened(keys[1], call.now, call.queue)
  return H.once(q, call.revision, function()
    local current = revision_of(redis.call('HGET', q.key.schedules, call.name))
    if current ~= call.expected then return REPLY.put_schedule({ reply = current == '' and 'missing' or 'stale' }) end
    write(q, call)
    if call.action then H.append_action(q, cjson.decode(call.action)) end
    if call.count == 0 then return REPLY.put_schedule({ reply = 'ok' }) end
    return REPLY.put_schedule({ reply = 'ok', enqueued = H.take_in(q, call, args, at) })
  end)
end)

local function found_by(q, name)
  if not name then return redis.call('HGETALL', q.key.schedules) end
  local stored = redis.call('HGET', q.key.schedules, name)
  return stored and { name, stored } or {}
end

-- serve schedules: now, name
--   reply: a list
--   in it, schedule_fields: name, stored, next_at
H.serve('schedules', function(call, keys)
  local q = H.queue(keys[1], call.now)
  local reply, found = {}, found_by(q, call.name)
  for index = 1, #found, 2 do
    reply[#reply + 1], reply[#reply + 2] = found[index], found[index + 1]
    reply[#reply + 1] = tonumber(redis.call('ZSCORE', q.key.ticks, found[index]) or -1)
  end
  return reply
end)

-- serve due: now, limit
--   reply: now, next_at, schedules
--   in it, schedule_fields: name, stored, next_at
H.serve('due', function(call, keys)
  local q, due = H.queue(keys[1], call.now), {}
  local after = redis.call('ZRANGEBYSCORE', q.key.ticks, '(' .. q.now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local found = redis.call('ZRANGEBYSCORE', q.key.ticks, '-inf', q.now, 'WITHSCORES', 'LIMIT', 0, call.limit)
  for index = 1, #found, 2 do
    local stored = redis.call('HGET', q.key.schedules, found[index])
    if stored then
      due[#due + 1], due[#due + 2], due[#due + 3] = found[index], stored, tonumber(found[index + 1])
    end
  end
  return REPLY.due({ now = q.now, next_at = tonumber(after[2]), schedules = due })
end)
