-- Chains: a job goes on with the next, and what the first job's record says of all of them. A chain's home is the queue
-- of its first job; whatever happens elsewhere is told there by a message.

-- Where the chain stands that a job began: `active` while another job of it is on; else its own state.
function H.outcome(job)
  local state = job.more.chain_state
  if not state then return job.state end
  return state == 'open' and 'active' or state
end

-- A later job's record has its position and its chain as one text: queue, id and run of the first job.

local function text_of(chain)
  return chain[1] .. '\0' .. chain[2] .. '\0' .. string.format('%d', chain[3])
end

function H.chain_text(chain, position)
  return struct.pack('>I4', position) .. text_of(chain)
end

function H.chain_parts(text)
  local queue, id, run = string.match(text, '^(%Z+)%z(.*)%z(%d+)$', 5)
  return { queue, id, tonumber(run) }, (struct.unpack('>I4', text))
end

-- How far a chain is: position, queue and id of its latest job, by the run of its first.

local function tail_of(q, rid)
  local text = redis.call('HGET', q.key.tails, rid)
  if not text then return 0 end
  return (struct.unpack('>I4', text))
end

local function tail_text(position, queue, id)
  return struct.pack('>I4', position) .. queue .. '\0' .. id
end

-- Jobs of a chain that are here, the first aside, by the chain.

local function member_of(chain)
  return text_of(chain) .. '\0'
end

local function members(q, chain)
  local prefix = member_of(chain)
  local found = redis.call('ZRANGEBYLEX', q.key.members, '[' .. prefix, '(' .. string.sub(prefix, 1, -2) .. '\1')
  for index, member in ipairs(found) do found[index] = string.sub(member, -6) end
  return found
end

function H.note_member(q, job)
  redis.call('ZADD', q.key.members, 0, string.sub(job.more.chain, 5) .. '\0' .. job.rid)
end

function H.forget_member(q, job)
  if job.more.chain then redis.call('ZREM', q.key.members, string.sub(job.more.chain, 5) .. '\0' .. job.rid) end
  if job.more.chain_state then
    redis.call('ZREM', q.key.chains, job.rid)
    redis.call('HDEL', q.key.tails, job.rid)
  end
end

-- The next job of a chain is here. One whose id somebody else has gets an id of its own.
local function follow(q, wanted, chain, position)
  local holder = H.holding(q, wanted.id)
  while holder do
    wanted.id = string.sub(wanted.id .. '/' .. holder.run, -1024)
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

-- It is known, at home, how far a chain is, and through which other queues it went. What comes late, because it came
-- another way, changes nothing.
local function move(q, chain, queue, id, position)
  local rid = H.rid(chain[3])
  if tail_of(q, rid) >= position or redis.call('HEXISTS', q.key.jobs, rid) == 0 then return end
  redis.call('HSET', q.key.tails, rid, tail_text(position, queue, id))
  if queue ~= q.name then redis.call('ZADD', q.key.members, 0, text_of(chain) .. '\1' .. queue) end
end

-- The other queues through which a chain went; they are not known any more.
local function take_places(q, chain)
  local prefix = text_of(chain) .. '\1'
  local found = redis.call('ZRANGEBYLEX', q.key.members, '[' .. prefix, '(' .. text_of(chain) .. '\2')
  if #found > 0 then redis.call('ZREM', q.key.members, unpack(found)) end
  for index, member in ipairs(found) do found[index] = string.sub(member, #prefix + 1) end
  return found
end

local function first_of(q, chain)
  local job = H.load(q, H.rid(chain[3]))
  if job and H.long(job.id) == chain[2] then return job end
end

-- complete: the chain goes on with another job.
function H.go_on(q, job, entry)
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
    following, failed = follow(q, wanted, chain, position)
    id = H.long(following.id)
  else
    H.send(q, next_job.queue, 'follow', { wanted = wanted, chain = chain, position = position })
  end
  if chain[1] == q.name then
    move(q, chain, next_job.queue, id, position)
  elseif chain[1] ~= next_job.queue then
    H.send(q, chain[1], 'moved', { chain = chain, queue = next_job.queue, id = id, position = position })
  end
  H.store(q, job)
  if more.chain then H.tell_watchers(q, job, 'completed') end -- who waits for the first job waits for the chain
  if failed then H.give_up(q, failed) end
end

-- Later jobs that go on with a plain job in their chain's home are completed together; the words have gaps where an
-- entry needs a closer look. `entry.more` is then '>', the id of the next job, and its task.
function H.go_on_all(q, session, entries, words)
  local going, rids, ids, wanted = {}, {}, {}, {}
  for index, entry in ipairs(entries) do
    if string.byte(entry.more, 1) == 62 then
      local id, task = string.match(entry.more, '^>(.*)%z(.*)$')
      local number = #going + 1
      going[number], rids[number], ids[number] = index, string.sub(entry.token, 1, 6), H.short(id)
      wanted[number] = { id = ids[number], long = id, task = task }
    end
  end
  if #going == 0 or H.keeps_payloads(q) or H.any(q, 'watchers') then return end
  local raws, taken = redis.call('HMGET', q.key.jobs, unpack(rids)), redis.call('HMGET', q.key.ids, unpack(ids))
  H.start_log(q)
  local run, home, done = H.next_runs(q, #going), q.name .. '\0', {}
  local records, ends, gone, held, waiting, members_here, tails = {}, {}, {}, {}, {}, {}, {}
  for number, index in ipairs(going) do
    local entry, rid, each, raw = entries[index], rids[number], wanted[number], raws[number]
    -- Its chain's home is here, or it needs a closer look.
    local here = raw and not taken[number] and not done[rid] and #each.task < 256 and H.is_home(raw, home)
    local record, expires_at, chain
    if here then record, expires_at, chain = H.go_on_plain(q, session, entry.token, raw) end
    if record then
      local position = struct.unpack('>I4', chain) + 1
      local next_rid, next_chain = H.rid(run + number - 1), struct.pack('>I4', position) .. string.sub(chain, 5)
      local following, place = H.follow_plain(q, next_rid, each.id, each.task, entry.body, next_chain)
      local at = 2 * #gone
      records[2 * at + 1], records[2 * at + 2], records[2 * at + 3], records[2 * at + 4] = rid, record, next_rid, following
      ends[at + 1], ends[at + 2], held[at + 1], held[at + 2] = expires_at, rid, each.id, next_rid
      waiting[at + 1], waiting[at + 2] = 0, place
      members_here[at + 1], members_here[at + 2] = 0, string.sub(chain, 5) .. '\0' .. next_rid
      tails[at + 1] = H.rid(tonumber(string.match(chain, '%z(%d+)$')))
      tails[at + 2] = tail_text(position, q.name, each.long)
      gone[#gone + 1] = rid
      done[rid], words[index] = true, 'ok completed'
    end
  end
  if #gone == 0 then return end
  redis.call('HSET', q.key.jobs, unpack(records))
  redis.call('ZADD', q.key.completed, unpack(ends))
  redis.call('HDEL', q.key.active, unpack(gone))
  redis.call('HSET', q.key.ids, unpack(held))
  redis.call('ZADD', q.key.waiting, unpack(waiting))
  redis.call('ZADD', q.key.members, unpack(members_here))
  redis.call('HSET', q.key.tails, unpack(tails))
  H.wake(q, #gone)
end

-- What hangs at the end of a chain, by its first job: its successor, its dependants, and who waits for it.
function H.chain_over(q, first, state)
  H.succeed(q, first)
  H.report_over(q, first)
  H.tell_watchers(q, first, state)
end

-- A chain whose home is here has ended, with the job at this position.
local function ended(q, chain, position, outcome)
  local first = first_of(q, chain)
  if not first or first.more.chain_state ~= 'open' or position < tail_of(q, first.rid) then return end
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
  local first = first_of(q, chain)
  if not first or not first.more.chain_state or tail_of(q, first.rid) ~= position then return end
  local more = first.more
  more.chain_state, more.ended_at, more.free_at, more.expires_at, more.error = 'open', nil, nil, nil, nil
  first.result = nil
  redis.call('ZADD', q.key[first.state], '+inf', first.rid)
  H.store(q, first)
end

-- The chain of a later job that runs anew goes on with it.
function H.reopen(q, job)
  local chain, position = H.chain_parts(job.more.chain)
  if chain[1] == q.name then
    reopen(q, chain, position)
  else
    H.send(q, chain[1], 'reopened', { chain = chain, position = position })
  end
end

-- complete, from outside: the job is over with this result, whoever works on it, and so is its chain.
local function complete_outside(q, job, result, ttl)
  local was_active = job.state == 'active'
  local event = was_active and H.ending(q, job) or {}
  event.cause = 'outside'
  local holder = { more = { session = job.more.session, attempts = job.more.attempts }, id = job.id, run = job.run }
  if was_active then H.let_go(q, job.rid) else H.take_away(q, job) end
  job.state, job.result, job.more.exit, job.more.error = 'completed', result, 'outside', nil
  H.end_times(q, job, ttl)
  H.append(q, 'complete', job, event)
  H.over(q, job)
  H.recheck(q, job.more.key)
  if was_active then
    H.abort(q, holder, 'completed_elsewhere')
    H.wake(q, 1)
  end
end

H.serve('complete_chain', function(keys, args)
  local arg = H.reader(args)
  local now, request, id, run, result, ttl = H.now(arg()), arg(), arg(), tonumber(arg()), arg(), tonumber(arg())
  local q = H.queue(keys[1], now)
  if request ~= '' then -- only a completion is remembered: a chain that went on is looked for elsewhere
    local known = redis.call('HGET', q.key.requests, request)
    if known then return cmsgpack.unpack(known) end
  end
  local job
  if run then job = H.find(q, id, run) else job = H.answering(q, id) end
  if not job then return 'missing' end
  if FINISHED[job.state] then return 'wrong_state' end
  return H.once(q, request, function()
    complete_outside(q, job, result, ttl)
    return 'ok'
  end)
end)

-- Deleting.

local function remove(q, job, transition)
  H.append(q, transition, job, { gone = true })
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

local function forget(q, chain, transition)
  for _, rid in ipairs(members(q, chain)) do
    local job = H.load(q, rid)
    if job then remove(q, job, transition) end
  end
end

-- Jobs of the chain other than its first are gone, here and, by a message, elsewhere.
function H.forget_others(q, first, transition)
  if not first.more.chain_state then return end
  local chain = { q.name, H.long(first.id), first.run }
  forget(q, chain, transition)
  for _, queue in ipairs(take_places(q, chain)) do
    H.send(q, queue, 'forget', { chain = chain, transition = transition })
  end
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

-- The runs of a chain that are here, the first aside.
H.serve('members', function(keys, args)
  return members(H.queue(keys[1], 0), { args[1], args[2], tonumber(args[3]) })
end)

-- Messages of other queues.

function H.receive.follow(q, body)
  local job, failed = follow(q, body.wanted, body.chain, body.position)
  if body.chain[1] == q.name then
    move(q, body.chain, q.name, H.long(job.id), body.position)
  elseif H.long(job.id) ~= body.wanted.long then -- its id was taken: home must know the one that it has
    H.send(q, body.chain[1], 'renamed', {
      chain = body.chain, queue = q.name, id = H.long(job.id), position = body.position,
    })
  end
  if failed then H.give_up(q, failed) end
end

function H.receive.moved(q, body)
  move(q, body.chain, body.queue, body.id, body.position)
end

function H.receive.renamed(q, body)
  local first = first_of(q, body.chain)
  if not first or tail_of(q, first.rid) ~= body.position then return end
  redis.call('HSET', q.key.tails, first.rid, tail_text(body.position, body.queue, body.id))
end

function H.receive.ended(q, body)
  move(q, body.chain, body.outcome.queue, body.outcome.id, body.position)
  ended(q, body.chain, body.position, body.outcome)
end

function H.receive.reopened(q, body) reopen(q, body.chain, body.position) end

function H.receive.forget(q, body) forget(q, body.chain, body.transition) end

function H.receive.cascade(q, body)
  local first, elsewhere = H.chain_of(q, H.short(body.id), body.run)
  if elsewhere then
    H.send(q, elsewhere[1], 'cascade', { id = elsewhere[2], run = elsewhere[3] })
  elseif first then
    cascade(q, first)
  end
end
