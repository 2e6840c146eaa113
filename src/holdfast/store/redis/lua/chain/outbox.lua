-- Steps across queues, each done once.
--
-- A step that concerns another queue is a message, written down by the sender's transition in its own slot (`send`),
-- carried over by Python (outbox.py: `outbox`, then `receive`), and applied once, because the
-- receiver remembers the last number of each sender (`inbox`). Messages of one sender come in order. Numbers follow the
-- clock, so that none comes twice when the sender's slot goes back in time: a replica that lagged has taken over, or a
-- server lost its memory. A turn that has both queues at hand does all of this in its one step, without writing
-- anything down.
--
-- A message: { number, target, kind, body (packed itself) }, in MessagePack. Kinds, and what their bodies are:
--   enqueue: a job that is wanted, as `H.enqueue` takes it: id, task, payload, spec (a fail handler)
--   enqueue_next: the next job of a chain (`wanted`, as above), the `chain` (queue, id, run of its first job), its `position`
--   moved, renamed: to a chain's home: which `queue`, `id` and `position` the `chain` is at
--   ended: to a chain's home: its `outcome` (state, result, error, queue, task, id of the last job) at a `position`
--   reopened: to a chain's home: its last job, at that `position`, runs anew
--   orphaned: jobs of the `chain` go by their own time, for its first is gone
--   forget: jobs of the `chain` are to go, as `transition` says; cascade: so is the chain of `id` and `run`
--   register, unregister: `from` (queue, run, number of the blocker, id) waits for the chain of `id` and `run`, or no longer
--   done: the chain for which the run `rid` waits, by the `number` of the blocker, is over, with this `outcome`
-- A part that needs another kind adds `H.receive.<kind> = function(q, body, sender)`, and says here what its body is.

local function post(q, target, kind, body)
  local sent = tonumber(redis.call('HGET', q.key.queue, 'sent') or 0)
  local number = math.max(sent + 1, q.now * 1000)
  redis.call('HSET', q.key.queue, 'sent', string.format('%.0f', number))
  redis.call('ZADD', q.key.outbox, number, cmsgpack.pack({ number, target, kind, cmsgpack.pack(body) }))
  q.posted = true
end

-- Where the other queue is at hand in the same call (`know_each_other`), nothing is written down: see `deliver_nearby`.
function H.send(q, target, kind, body)
  if q.near and q.near[target] then
    q.unsent[#q.unsent + 1] = { target, kind, body }
  else
    post(q, target, kind, body)
  end
end

H.receive = {
  enqueue = function(q, body) H.enqueue(q, { body }, {}) end,
}

-- These queues may hand messages over to each other, until `deliver_nearby`. One that still has something to deliver may not:
-- its messages come in order.
function H.know_each_other(queues)
  local all = {}
  for _, q in ipairs(queues) do all[q.name] = q end
  for _, q in ipairs(queues) do
    local free = #queues > 1 and redis.call('EXISTS', q.key.outbox) == 0
    q.unsent, q.near = {}, free and all or { [q.name] = q }
  end
end

-- Every message between these queues is applied, and what follows from it. One that fails is for the outbox.
function H.deliver_nearby(queues)
  local found
  repeat
    found = false
    for _, q in ipairs(queues) do
      local messages = q.unsent
      found, q.unsent = found or #messages > 0, {}
      for _, message in ipairs(messages) do
        local target, kind, body = unpack(message)
        if not pcall(H.receive[kind], q.near[target], body, q.name) then post(q, target, kind, body) end
      end
    end
  until not found
  for _, q in ipairs(queues) do q.near = nil end
end

-- What is still to be delivered, oldest first: number, target, kind and body of each.
function H.undelivered(q)
  local reply = {}
  for _, text in ipairs(redis.call('ZRANGE', q.key.outbox, 0, 99)) do
    local entry = H.unpacked(text)
    if entry and type(entry[1]) == 'number' and type(entry[2]) == 'string' and type(entry[3]) == 'string'
      and type(entry[4]) == 'string' then
      for index = 1, 4 do reply[#reply + 1] = entry[index] end
    else
      redis.call('ZREM', q.key.outbox, text)
      H.note(q, 'message', '', 0, 'it cannot be read')
    end
  end
  return reply
end
