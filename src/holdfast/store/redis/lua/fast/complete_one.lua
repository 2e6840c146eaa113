-- The fast path of `settle_all` in serve/turn.lua, for one plain completion in a queue without keys.

-- The word for it; nil when it needs a closer look.
function H.complete_one(q, session, entry)
  local token, body = entry.token, entry.body
  local rid, id = string.sub(token, 1, 6), string.sub(token, 11)
  local raw, watched = redis.call('HGET', q.key.jobs, rid), redis.call('HGET', q.key.watchers, id)
  if not raw then return nil end
  H.start_log(q)
  local record, expires_at = H.complete_plain(q, session, token, raw, body, watched and true)
  if not record then return nil end
  redis.call('HSET', q.key.jobs, rid, record)
  redis.call('ZADD', q.key.completed, expires_at, rid)
  redis.call('HDEL', q.key.active, rid)
  if watched then H.notify_all(q, { { id, rid, watched, body } }, 'completed') end
  return 'ok completed'
end
