-- Chains are deleted as a whole, and by cascade with those that wait for them.

local function remove(q, job, transition, cause)
  H.append(q, transition, job, { gone = true, cause = cause })
  local active = job.state == 'active'
  H.abandon(q, job)
  H.remove(q, job)
  if active then
    H.abort(q, job, 'deleted')
    H.wake(q, 1)
  end
  H.recheck(q, job.more.key)
  job.more.expires_at = nil
  H.notify_watchers(q, job, 'cancelled')
end

local function forget(q, chain, transition, cause)
  local found, failed = H.members(q, chain), 0
  for _, rid in ipairs(found) do
    local job = H.load(q, rid)
    if job and job.state == 'failed' then failed = failed + 1 end
    if job then remove(q, job, transition, cause) end
  end
  return #found, failed
end

-- Jobs of the chain other than its first are gone, here and, by a message, elsewhere. Return how many here, and how
-- many of them had failed.
function H.forget_others(q, first, transition, cause)
  if not first.more.chain_state then return 0, 0 end
  local chain = { q.name, H.long(first.id), first.run }
  local count, failed = forget(q, chain, transition, cause)
  for _, queue in ipairs(H.take_other_queues(q, chain)) do
    H.send(q, queue, 'forget', { chain = chain, transition = transition, cause = cause, actor = q.actor })
  end
  return count, failed
end

-- Every job of the chain is gone; those who wait for it hear that it was cancelled.
function H.delete_chain(q, first)
  H.resolve_dependants(q, first.rid, { state = 'cancelled' })
  local outcome = H.outcome(first)
  H.forget_others(q, first, 'delete')
  remove(q, first, 'delete')
  if outcome == 'active' then H.drop_successor(q, first, false) end
end

function H.delete_later(q, job)
  if not FINISHED[job.state] then H.end_chain(q, job, 'cancelled') end
  remove(q, job, 'delete')
end

-- The chain, and every chain that waits for it; those elsewhere by a message. Return how many.
local function cascade(q, first)
  local todo, known, sent, at = { first }, { [first.rid] = true }, 0, 1
  while todo[at] do
    local waiting = H.waiting_for(q, todo[at].rid)
    for index = 1, #waiting, 3 do
      local queue, run, id = waiting[index], waiting[index + 1], waiting[index + 2]
      local job, elsewhere = nil, { queue, id, run }
      if queue == q.name then job, elsewhere = H.chain_of(q, H.short(id), run) end
      if elsewhere then
        H.send(q, elsewhere[1], 'cascade', { id = elsewhere[2], run = elsewhere[3], actor = q.actor })
        sent = sent + 1
      elseif job and not known[job.rid] then
        known[job.rid], todo[#todo + 1] = true, job
      end
    end
    at = at + 1
  end
  for index = #todo, 1, -1 do H.delete_chain(q, todo[index]) end -- dependants go first: none of them fails for it
  return #todo + sent
end

-- serve delete_chain: now, id, run, cascade, actor
--   reply: reply, chains, waiting, elsewhere
--   in it, waiting_fields: queue, run, id
H.serve('delete_chain', function(call, keys)
  local q = H.acting(keys[1], call)
  local first, elsewhere = H.chain_of(q, call.id, call.run)
  if elsewhere then return REPLY.delete_chain({ reply = 'elsewhere', elsewhere = elsewhere }) end
  if not first then return REPLY.delete_chain({ reply = 'missing' }) end
  local waiting = H.waiting_for(q, first.rid)
  if #waiting > 0 and not call.cascade then
    return REPLY.delete_chain({ reply = 'wrong_state', waiting = { unpack(waiting, 1, math.min(#waiting, 3 * AT_ONCE)) } })
  end
  return REPLY.delete_chain({ reply = 'ok', chains = cascade(q, first) })
end)

-- A message is of whoever acted where it was sent.
local function received(work)
  return function(q, body)
    q.actor = body.actor
    work(q, body)
    q.actor = nil
  end
end

H.receive.forget = received(function(q, body) forget(q, body.chain, body.transition, body.cause) end)

H.receive.cascade = received(function(q, body)
  local first, elsewhere = H.chain_of(q, H.short(body.id), body.run)
  if elsewhere then
    H.send(q, elsewhere[1], 'cascade', { id = elsewhere[2], run = elsewhere[3], actor = q.actor })
  elseif first then
    cascade(q, first)
  end
end)
