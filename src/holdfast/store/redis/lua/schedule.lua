-- Schedules. Python decides, on what it read; here it is written only if nobody changed the schedule meanwhile (its
-- revision), and the jobs of its ticks are taken in with the same step.

-- A schedule is stored as its revision, a colon, and a body that only Python reads.
local function revision_of(stored)
  return stored and string.match(stored, '^([^:]*):') or ''
end

local function write(q, name, revision, next_at, body)
  if not body then
    redis.call('HDEL', q.key.schedules, name)
  else
    redis.call('HSET', q.key.schedules, name, revision .. ':' .. body)
  end
  if body and next_at then
    redis.call('ZADD', q.key.ticks, next_at, name)
  else
    redis.call('ZREM', q.key.ticks, name)
  end
end

H.serve('put_schedule', function(keys, args)
  local arg = H.reader(args)
  local q = H.opened(keys[1], H.now(arg()), arg())
  local name, expected, revision, next_at, body = arg(), arg(), arg(), H.optional(arg()), H.optional(arg())
  local history, conflict, count = tonumber(arg()), H.json(arg()), tonumber(arg())
  return H.once(q, revision, function()
    local current = revision_of(redis.call('HGET', q.key.schedules, name))
    if current ~= expected then return { current == '' and 'missing' or 'stale' } end
    write(q, name, revision, next_at, body)
    if count == 0 then return { 'ok' } end
    return { 'ok', H.take_in(q, arg, count, conflict, history) }
  end)
end)

local function found_by(q, name)
  if not name then return redis.call('HGETALL', q.key.schedules) end
  local stored = redis.call('HGET', q.key.schedules, name)
  return stored and { name, stored } or {}
end

-- Flat: name, what is stored, and when it is due (-1: never). All of them, or the one that is named.
H.serve('schedules', function(keys, args)
  local q = H.queue(keys[1], 0)
  local reply, found = {}, found_by(q, H.optional(args[1]))
  for index = 1, #found, 2 do
    reply[#reply + 1], reply[#reply + 2] = found[index], found[index + 1]
    reply[#reply + 1] = tonumber(redis.call('ZSCORE', q.key.ticks, found[index]) or -1)
  end
  return reply
end)

-- The time, the next tick after it (-1: none), and, flat as above, what is due.
H.serve('due', function(keys, args)
  local arg = H.reader(args)
  local q = H.queue(keys[1], H.now(arg()))
  local after = redis.call('ZRANGEBYSCORE', q.key.ticks, '(' .. q.now, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local reply = { q.now, tonumber(after[2] or -1) }
  local found = redis.call('ZRANGEBYSCORE', q.key.ticks, '-inf', q.now, 'WITHSCORES', 'LIMIT', 0, arg())
  for index = 1, #found, 2 do
    local stored = redis.call('HGET', q.key.schedules, found[index])
    if stored then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = found[index], stored, tonumber(found[index + 1])
    end
  end
  return reply
end)
