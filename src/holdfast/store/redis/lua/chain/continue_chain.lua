-- complete: the chain continues with another job, here or in another queue.

-- The next job of a chain is here. One whose id another job has gets an id of its own.
function H.enqueue_next(q, wanted, chain, position)
  local holder = H.holding(q, wanted.id)
  while holder do
    wanted.id = string.sub(wanted.id .. '/' .. holder.run, -MOST_ID_BYTES)
    holder = H.holding(q, wanted.id)
  end
  local job = H.new_job(q, H.next_runs(q, 1), wanted)
  job.more.chain = H.chain_text(chain, position)
  local failed
  if wanted.spec.blockers then failed = H.wait_for(q, job, wanted.spec.blockers, wanted.spec.policy) end
  H.note_member(q, job)
  H.insert(q, job, 'enqueue')
  H.recheck(q, job.more.key)
  if job.state ~= 'blocked' then H.wake_for(q, job.run_at) end
  return job, failed
end

-- complete: the chain continues with another job.
function H.continue_chain(q, job, entry)
  local more, next_job = job.more, entry.next
  local chain, position = { q.name, H.long(job.id), job.run }, 0
  if more.chain then chain, position = H.chain_parts(more.chain) end
  position = position + 1
  H.let_go(q, job.rid)
  local event = H.ending(q, job)
  job.state, job.result, more.exit, more.error = 'completed', nil, 'complete', nil
  if more.chain then
    H.end_times(q, job, entry.ttl)
  else
    more.finished_at, more.chain_state = q.now, 'open'
    redis.call('ZADD', q.key.chains, job.run, job.rid)
  end
  redis.call('ZADD', q.key.completed, more.expires_at or '+inf', job.rid)
  H.append(q, 'complete', job, event)
  local wanted = {
    id = H.short(next_job.id), long = next_job.id, task = H.given(next_job.task), payload = entry.body,
    spec = next_job.spec,
  }
  local id, failed = next_job.id, nil
  if next_job.queue == q.name then
    local following
    following, failed = H.enqueue_next(q, wanted, chain, position)
    id = H.long(following.id)
  else
    H.send(q, next_job.queue, 'enqueue_next', { wanted = wanted, chain = chain, position = position })
  end
  if chain[1] == q.name then
    H.move(q, chain, next_job.queue, id, position)
  elseif chain[1] ~= next_job.queue then
    H.send(q, chain[1], 'moved', { chain = chain, queue = next_job.queue, id = id, position = position })
  end
  H.store(q, job)
  if more.chain then H.notify_watchers(q, job, 'completed') end -- who waits for the first job waits for the chain
  if failed then H.give_up(q, failed) end
end

-- The next job that an entry asks for, when it is a plain one: `>`, its id and its task, here; or `@`, queue, id and task.
-- In front of that stand `=` and its envelope, if it has one.
function H.next_of(q, more)
  local mark, queue, id, task, envelope = string.byte(more, 1), q.name, nil, nil, nil
  if mark == 61 then
    envelope, more = string.match(more, '^=(%Z*)%z(.*)$')
    mark = string.byte(more, 1)
  end
  if mark == 62 then
    id, task = string.match(more, '^>(.*)%z(.*)$')
  elseif mark == 64 then
    queue, id, task = string.match(more, '^@(%Z+)%z(.*)%z(%Z*)$')
  end
  if id then return { queue = queue, long = id, task = task, envelope = envelope } end
end

-- A sender whose slot went back in time does its step again: the job that follows is there already, and says again how
-- it ended the chain, if it did.
local function is_there_already(q, body)
  local holder = H.holding(q, body.wanted.id)
  if not holder or holder.more.chain ~= H.chain_text(body.chain, body.position) then return false end
  if FINISHED[holder.state] and (holder.state ~= 'completed' or holder.result) then H.end_chain(q, holder, holder.state) end
  return true
end

function H.receive.enqueue_next(q, body)
  if is_there_already(q, body) then return end
  local job, failed = H.enqueue_next(q, body.wanted, body.chain, body.position)
  if body.chain[1] == q.name then
    H.move(q, body.chain, q.name, H.long(job.id), body.position)
  elseif H.long(job.id) ~= body.wanted.long then -- its id was taken: home must know the one that it has
    H.send(q, body.chain[1], 'renamed', {
      chain = body.chain, queue = q.name, id = H.long(job.id), position = body.position,
    })
  end
  if failed then H.give_up(q, failed) end
end
