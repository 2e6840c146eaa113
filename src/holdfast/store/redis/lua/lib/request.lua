-- First answers, for calls that are repeated because their reply was lost.

function H.first_answer(request, text)
  local fine, reply = pcall(cmsgpack.unpack, text)
  if fine and (type(reply) == 'table' or type(reply) == 'string') then return reply end
  return redis.error_reply('ERR request ' .. request .. ' was answered before, and that cannot be read')
end

function H.once(q, request, work)
  if request == '' or not q.epoch then return work() end -- a queue that is not there has nothing to remember it in
  local known = redis.call('HGET', q.key.requests, request)
  if known then return H.first_answer(request, known) end
  local reply = work()
  redis.call('HSET', q.key.requests, request, cmsgpack.pack(reply))
  redis.call('RPUSH', q.key.answered, q.now .. ':' .. request)
  return reply
end

-- Answers that are old enough go, at most `limit` of them. True when there are more.
function H.forget_answers(q, limit)
  for _ = 1, limit do
    local oldest = redis.call('LINDEX', q.key.answered, 0)
    local at, request = string.match(oldest or '', '^(%d+):(.*)$')
    if not at or tonumber(at) > q.now - REMEMBERED_MS then return false end
    redis.call('LPOP', q.key.answered)
    redis.call('HDEL', q.key.requests, request)
  end
  return true
end
