-- The end of a chain, noted at its home, the queue of its first job.

-- A chain is over, by its first job: start its successor, resolve its dependants, and notify its watchers.
function H.chain_over(q, first, state)
  H.start_successor(q, first)
  H.resolve_finished(q, first)
  H.notify_watchers(q, first, state)
end

-- Jobs of a chain whose first job is gone go by their own time: nothing else will take them along.
local function orphan(q, chain)
  for _, rid in ipairs(H.members(q, chain)) do
    local job = H.load(q, rid)
    if job and FINISHED[job.state] and not job.more.expires_at then
      job.more.expires_at = q.now + H.result_ttl(q)
      redis.call('ZADD', q.key[job.state], job.more.expires_at, rid)
      H.store(q, job)
    end
  end
end

-- A first job whose record was lost leaves nothing that points to it.
local function forget_first(q, chain)
  local rid, id = H.rid(chain[3]), H.short(chain[2])
  for state in pairs(FINISHED) do redis.call('ZREM', q.key[state], rid) end
  redis.call('ZREM', q.key.chains, rid)
  redis.call('HDEL', q.key.tails, rid)
  if redis.call('HGET', q.key.ids, id) == rid then redis.call('HDEL', q.key.ids, id) end
end

local function orphan_all(q, chain, last)
  forget_first(q, chain)
  orphan(q, chain)
  local sent_to = { [q.name] = true }
  for _, queue in ipairs({ last, unpack(H.take_other_queues(q, chain)) }) do
    if not sent_to[queue] then H.send(q, queue, 'orphaned', { chain = chain }) end
    sent_to[queue] = true
  end
end

-- A chain whose home is here has ended, with the job at this position.
local function ended(q, chain, position, outcome)
  local first = H.first_of(q, chain)
  if not first then return orphan_all(q, chain, outcome.queue) end
  if first.more.chain_state ~= 'open' or position < H.tail_of(q, first.rid) then return end
  local more, ttl = first.more, nil
  ttl = more.ttl or H.result_ttl(q)
  more.chain_state, more.ended_at, more.last = outcome.state, q.now, { outcome.queue, outcome.task or false }
  first.result, more.error = outcome.result or nil, outcome.error or nil
  more.free_at = q.now + ttl
  more.expires_at = math.max(q.now + math.max(ttl, H.kept_ms(q, outcome.state)), more.dedup_until or 0)
  if outcome.state == 'cancelled' then
    more.free_at = q.now
    H.free_id(q, first)
  end
  redis.call('ZADD', q.key[first.state], more.expires_at, first.rid)
  H.store(q, first)
  H.chain_over(q, first, outcome.state)
end

-- A later job of a chain is over, and so is the chain.
function H.end_chain(q, job, state)
  local more = job.more
  local outcome = {
    state = state, result = state == 'completed' and job.result or nil, error = state == 'failed' and more.error or nil,
    queue = q.name, task = job.task, id = H.long(job.id),
  }
  local chain, position = H.chain_parts(more.chain)
  if chain[1] == q.name then
    ended(q, chain, position, outcome)
  else
    H.send(q, chain[1], 'ended', { chain = chain, position = position, outcome = outcome })
  end
end

local function reopen(q, chain, position)
  local first = H.first_of(q, chain)
  if not first or not first.more.chain_state or H.tail_of(q, first.rid) ~= position then return end
  local more = first.more
  more.chain_state, more.ended_at, more.free_at, more.expires_at, more.error = 'open', nil, nil, nil, nil
  first.result = nil
  redis.call('ZADD', q.key[first.state], '+inf', first.rid)
  H.store(q, first)
end

-- The chain of a later job that runs anew is open again.
function H.reopen(q, job)
  local chain, position = H.chain_parts(job.more.chain)
  if chain[1] == q.name then
    reopen(q, chain, position)
  else
    H.send(q, chain[1], 'reopened', { chain = chain, position = position })
  end
end

function H.receive.ended(q, body)
  H.move(q, body.chain, body.outcome.queue, body.outcome.id, body.position)
  ended(q, body.chain, body.position, body.outcome)
end

function H.receive.reopened(q, body) reopen(q, body.chain, body.position) end

function H.receive.orphaned(q, body) orphan(q, body.chain) end
