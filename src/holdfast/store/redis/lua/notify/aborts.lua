-- Aborts: handlers that must be told to stop, by session, run and attempt.

function H.abort(q, job, reason)
  local entry = cmsgpack.pack({ job.more.session, job.id, job.run, job.more.attempts, reason })
  redis.call('HSET', q.key.aborts, job.run .. '/' .. job.more.attempts, entry)
  q.has.aborts = true
  H.ring_session(q, job.more.session)
end

function H.forget_abort(q, run, attempt)
  if H.any(q, 'aborts') then redis.call('HDEL', q.key.aborts, run .. '/' .. attempt) end
end

function H.aborts(q, session)
  local found = {}
  if not H.any(q, 'aborts') then return found end
  local stored = redis.call('HGETALL', q.key.aborts)
  for at = 1, #stored, 2 do
    local entry = H.unpacked(stored[at + 1]) or NOTHING
    if type(entry[3]) ~= 'number' or type(entry[4]) ~= 'number' or type(entry[5]) ~= 'string' then
      redis.call('HDEL', q.key.aborts, stored[at])
      H.note(q, 'abort', stored[at], 0, 'it cannot be read, and is dropped')
    elseif entry[1] == session then
      for index = 2, 5 do found[#found + 1] = entry[index] end
    end
  end
  return found
end
