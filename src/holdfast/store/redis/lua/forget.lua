-- Deleting.

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
  H.tell_watchers(q, job, 'cancelled')
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
  for _, queue in ipairs(H.take_places(q, chain)) do
    H.send(q, queue, 'forget', { chain = chain, transition = transition, cause = cause })
  end
  return count, failed
end

-- Every job of the chain is gone; whoever waits for it hears that it was cancelled.
function H.delete_chain(q, first)
  H.report(q, first.rid, { state = 'cancelled' })
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
        H.send(q, elsewhere[1], 'cascade', { id = elsewhere[2], run = elsewhere[3] })
        sent = sent + 1
      elseif job and not known[job.rid] then
        known[job.rid], todo[#todo + 1] = true, job
      end
    end
    at = at + 1
  end
  for index = #todo, 1, -1 do H.delete_chain(q, todo[index]) end -- who waits goes first, and fails for nobody's sake
  return #todo + sent
end

H.serve('delete_chain', function(keys, args)
  local arg = H.reader(args)
  local now, id, run, all = H.now(arg()), arg(), tonumber(arg()), arg() == 'cascade'
  local q = H.queue(keys[1], now)
  local first, elsewhere = H.chain_of(q, id, run)
  if elsewhere then return { 'elsewhere', elsewhere[1], elsewhere[2], elsewhere[3] } end
  if not first then return { 'missing', 0 } end
  local waiting = H.waiting_for(q, first.rid)
  if #waiting > 0 and not all then return { 'wrong_state', 0, unpack(waiting, 1, math.min(#waiting, 3000)) } end
  return { 'ok', cascade(q, first) }
end)

function H.receive.forget(q, body) forget(q, body.chain, body.transition, body.cause) end

function H.receive.cascade(q, body)
  local first, elsewhere = H.chain_of(q, H.short(body.id), body.run)
  if elsewhere then
    H.send(q, elsewhere[1], 'cascade', { id = elsewhere[2], run = elsewhere[3] })
  elseif first then
    cascade(q, first)
  end
end
