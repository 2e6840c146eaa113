-- Calls that are repeated, and steps across queues: both are done once.
--
-- A step that concerns another queue is a message, written down by the sender's transition in its own slot (`send`),
-- carried over by Python (`_deliver` in store.py: `outbox`, then `receive` for each), and applied once, because the
-- receiver remembers the last number of each sender (`inbox`). Messages of one sender come in order.
--
-- A message: { number, target, kind, body }, in MessagePack. Kinds, and what their bodies are:
--   enqueue: a job that is wanted, as `H.enqueue` takes it: id, task, payload, spec (a fail handler)
-- A part that needs another kind adds `H.receive.<kind> = function(q, body, sender)`, and says here what its body is.

-- First answers, for calls that are repeated because their reply was lost.

function H.once(q, request, work)
  if request == '' then return work() end
  local known = redis.call('HGET', q.key.requests, request)
  if known then return cmsgpack.unpack(known) end
  local reply = work()
  redis.call('HSET', q.key.requests, request, cmsgpack.pack(reply))
  redis.call('RPUSH', q.key.answered, q.now .. ':' .. request)
  return reply
end

function H.send(q, target, kind, body)
  local number = redis.call('HINCRBY', q.key.queue, 'sent', 1)
  redis.call('ZADD', q.key.outbox, number, cmsgpack.pack({ number, target, kind, body }))
  q.posted = true
end

H.receive = {
  enqueue = function(q, body) H.enqueue(q, { body }, {}) end,
}

H.serve('receive', function(keys, args)
  local arg = H.reader(args)
  local now, name, sender, number = H.now(arg()), arg(), arg(), tonumber(arg())
  local kind, body = arg(), arg()
  local q = H.opened(keys[1], now, name)
  if number <= tonumber(redis.call('HGET', q.key.inbox, sender) or 0) then return 'known' end
  if not H.receive[kind] then return redis.error_reply('ERR no such kind of message: ' .. kind) end
  redis.call('HSET', q.key.inbox, sender, number)
  H.receive[kind](q, cmsgpack.unpack(body), sender)
  return 'ok'
end)

-- What is still to be delivered, oldest first: number, target, kind and body of each.
H.serve('outbox', function(keys, args)
  local arg = H.reader(args)
  local q, done = H.queue(keys[1], 0), H.optional(arg())
  if done then redis.call('ZREMRANGEBYSCORE', q.key.outbox, done, done) end
  local reply = {}
  for _, text in ipairs(redis.call('ZRANGE', q.key.outbox, 0, 99)) do
    local entry = cmsgpack.unpack(text)
    for index = 1, 3 do reply[#reply + 1] = entry[index] end
    reply[#reply + 1] = cmsgpack.pack(entry[4])
  end
  return reply
end)
