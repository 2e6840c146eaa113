-- requeue: completed | failed | cancelled -> waiting | scheduled | blocked
-- guard: no other run holds the id
-- effects: number a new run with fresh counters, append event, wake one worker

local function requeue(q, old)
  local more = old.more
  local job = {
    rid = nil, run = H.next_runs(q, 1), id = old.id, task = old.task, payload = old.payload, state = 'waiting',
    priority = old.priority, enqueued_at = q.now, run_at = q.now,
    more = { key = more.key, envelope = more.envelope, overrides = more.overrides, ttl = more.ttl, dedup = more.dedup },
  }
  job.rid = H.rid(job.run)
  H.free_id(q, old)
  more.requeued_as = job.run
  local failed
  if more.waits then failed = H.wait_again(q, old, job) end
  H.store(q, old)
  if more.chain then
    job.more.chain = more.chain
    H.note_member(q, job)
    H.reopen(q, job)
  end
  H.insert(q, job, 'requeue')
  H.recheck(q, job.more.key)
  H.wake(q, 1)
  if failed then H.give_up(q, failed) end
  return job.run
end

-- The end of a chain that is over may run anew, and nothing else of it: a fork would have two ends.
local function is_last(job)
  if job.more.chain then return not (job.state == 'completed' and job.result == nil) end
  return job.more.chain_state ~= 'open'
end

-- serve requeue: now, request, dry_run, actor
--   then, over and over, run_arguments: rid
--   reply: a list
--   in it, requeued_fields: id, run
H.serve('requeue', function(call, keys, args, at)
  local q = H.acting(keys[1], call)
  return H.once(q, call.request, function()
    local reply = {}
    for index = at, #args do
      local rid = args[index]
      local job = H.load(q, rid)
      if job and FINISHED[job.state] and not job.more.requeued_as and not H.is_gone(q, job) and is_last(job) then
        local holder = H.holding(q, job.id)
        if holder == nil or holder.run == job.run then
          if holder == nil then job = H.load(q, rid) end
          reply[#reply + 1], reply[#reply + 2] = job.id, call.dry_run and job.run or requeue(q, job)
        end
      end
    end
    return reply
  end)
end)
