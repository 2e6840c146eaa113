-- Messages between queues, as Python carries them over (outbox.py).

-- serve receive: now, queue, sender
--   then, over and over, message_arguments: number, kind, body
--   reply: a word
H.serve('receive', function(call, keys, args, at)
  local q, sender, message_arguments = H.opened(keys[1], call.now, call.queue), call.sender, TAKES.message_arguments
  local last = tonumber(redis.call('HGET', q.key.inbox, sender) or 0)
  for index = at, #args, message_arguments.size do
    local its = message_arguments.read(args, index)
    local kind = its.kind
    if tonumber(its.number) > last then
      if not H.receive[kind] then return redis.error_reply('ERR no such kind of message: ' .. kind) end
      last = tonumber(its.number)
      redis.call('HSET', q.key.inbox, sender, its.number)
      local message = H.unpacked(its.body)
      if message then H.receive[kind](q, message, sender) else H.note(q, 'message', sender, 0, kind .. ' cannot be read') end
    end
  end
  return q.posted and 'posted' or 'ok'
end)

-- serve outbox: now, delivered
--   reply: a list
--   in it, message_fields: number, target, kind, body
H.serve('outbox', function(call, keys)
  local q = H.queue(keys[1], call.now)
  if call.delivered then redis.call('ZREMRANGEBYSCORE', q.key.outbox, '-inf', call.delivered) end
  return H.undelivered(q)
end)
