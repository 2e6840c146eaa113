-- What upkeep has to do in many queues, found by one call that only looks: `reap` and `expire` then do it, queue by queue.

-- Whether `reap` has something to do, or else in how long the next lease of another session is over. A lease that is too long, since the
-- clock was set back, is left to `reap` itself.
local function to_reap(q, shift, but)
  if shift > q.shift or redis.call('EXISTS', q.key.dead, q.key.outbox, q.key.untold) > 0 then return true end
  local soonest = redis.call('ZRANGE', q.key.expiries, 0, 1, 'WITHSCORES')
  for index = 1, #soonest, 2 do
    if soonest[index] ~= but then
      local left = tonumber(soonest[index + 1]) - q.now
      return left <= 0, left
    end
  end
  return false
end

local function is_due(q, name)
  local first = redis.call('ZRANGE', q.key[name], 0, 0, 'WITHSCORES')
  return first[2] and tonumber(first[2]) <= q.now
end

local function to_expire(q, history)
  local most = H.retention(q, 'failed_count')
  if most and redis.call('ZCARD', q.key.letters) > most then return true end
  if redis.call('XLEN', q.key.events) > history then return true end
  if redis.call('EXISTS', q.key.completed, q.key.failed, q.key.cancelled, q.key.timed, q.key.cooling, q.key.answered) == 0 then
    return false
  end
  for index in pairs(FINISHED) do
    if is_due(q, index) then return true end
  end
  local at = string.match(redis.call('LINDEX', q.key.answered, 0) or '', '^(%d+):')
  return is_due(q, 'timed') or is_due(q, 'cooling') or at and tonumber(at) <= q.now - REMEMBERED_MS
end

-- serve chores: now, shift, asking, history
--   reply: reap, expire, next_ms, revisions
H.serve('chores', function(call, keys)
  local reap, expire, revisions, next_ms = {}, {}, {}, nil
  for index, key in ipairs(keys) do
    local q = H.queue(key, call.now)
    local dead, left = to_reap(q, call.shift, call.asking)
    if dead then
      reap[#reap + 1] = index
    elseif left and (not next_ms or left < next_ms) then
      next_ms = left
    end
    if to_expire(q, call.history) then expire[#expire + 1] = index end
    revisions[index] = redis.call('HGET', q.key.queue, 'revision') or '0'
  end
  return REPLY.chores({ reap = reap, expire = expire, next_ms = next_ms, revisions = table.concat(revisions, ',') })
end)
