-- Blockers: what a run of this queue waits for. Each is kept in one field, of the run and its number: queue, id, run,
-- state (false while it is open), queue and task of the chain's last job, error, result, and the run of the chain's
-- first job, if that is here.

local QUEUE, ID, RUN, STATE, LAST_QUEUE, LAST_TASK, ERROR, RESULT, FIRST = 1, 2, 3, 4, 5, 6, 7, 8, 9

local function field(rid, number)
  return rid .. struct.pack('>I4', number)
end

local function fill(entry, outcome)
  entry[STATE], entry[LAST_QUEUE], entry[LAST_TASK] = outcome.state, outcome.queue or false, outcome.task or false
  entry[ERROR], entry[RESULT] = outcome.error or false, outcome.result or false
end

function H.ask_blocker(q, target, id, run, from)
  H.send(q, target, 'register', { id = id, run = run or false, from = from })
end

-- One blocker of a run: its entry. What is in another queue is asked by a message, and open until that answers.
local function wait_for_one(q, job, number, ref)
  local queue, id, run = ref[1], ref[2], H.given(ref[3]) or nil
  local entry = { queue, id, run or false, false, false, false, false, false, false }
  local from = { q.name, job.rid, number, H.long(job.id) }
  if queue ~= q.name then
    H.ask_blocker(q, queue, id, run, from)
    return entry
  end
  local outcome, rid, elsewhere = H.chain_outcome(q, id, run)
  if outcome then
    fill(entry, outcome)
  elseif elsewhere then
    H.ask_blocker(q, elsewhere[1], elsewhere[2], elsewhere[3], from)
  else
    redis.call('ZADD', q.key.dependants, 0, H.dependant(rid, from))
    entry[FIRST], q.has.dependants = rid, true
  end
  return entry
end

local function note(q, job, entries, policy)
  local open, failed, flat = 0, nil, {}
  for number, entry in ipairs(entries) do
    flat[#flat + 1], flat[#flat + 2] = field(job.rid, number), cmsgpack.pack(entry)
    if not entry[STATE] then
      open = open + 1
    elseif entry[STATE] ~= 'completed' and policy ~= 'ignore' then
      failed = failed or entry
    end
  end
  H.in_parts(flat, function(...) redis.call('HSET', q.key.blockers, ...) end)
  job.more.waits, job.more.open, job.more.policy = #entries, open, policy
  if open > 0 or failed then job.state = 'blocked' end
  return failed and { job.rid, failed[QUEUE], failed[ID] }
end

-- A run that is about to be inserted waits for these. Return what `give_up` needs when one of them has failed already.
function H.wait_for(q, job, refs, policy)
  local entries = {}
  for number, ref in ipairs(refs) do entries[number] = wait_for_one(q, job, number, ref) end
  return note(q, job, entries, policy)
end

local function entry_in(text)
  local entry = H.unpacked(text)
  return entry and type(entry[QUEUE]) == 'string' and type(entry[ID]) == 'string' and entry or nil
end

local function entries_of(q, job)
  local fields, entries = {}, {}
  for number = 1, job.more.waits or 0 do fields[number] = field(job.rid, number) end
  H.in_parts(fields, function(...)
    for _, text in ipairs(redis.call('HMGET', q.key.blockers, ...)) do
      entries[#entries + 1] = entry_in(text) or false
    end
  end)
  return entries, fields
end

-- A run that starts anew has the results that the old one had, and asks again for those it had not.
function H.wait_again(q, old, job)
  local entries = entries_of(q, old)
  for number, entry in ipairs(entries) do
    if entry[STATE] ~= 'completed' then entries[number] = wait_for_one(q, job, number, { entry[QUEUE], entry[ID] }) end
  end
  H.forget_blockers(q, old)
  old.more.waits = nil
  return note(q, job, entries, old.more.policy)
end

function H.forget_blockers(q, job)
  if not job.more.waits then return end
  local _, fields = entries_of(q, job)
  H.in_parts(fields, function(...) redis.call('HDEL', q.key.blockers, ...) end)
end

-- The run is over before its blockers are: it need not hear of them any more.
function H.abandon(q, job)
  if (job.more.open or 0) == 0 then return end
  for number, entry in ipairs(entries_of(q, job)) do
    if entry and not entry[STATE] then
      local from = { q.name, job.rid, number, H.long(job.id) }
      if entry[FIRST] then
        redis.call('ZREM', q.key.dependants, H.dependant(entry[FIRST], from))
      else
        H.send(q, entry[QUEUE], 'unregister', { id = entry[ID], run = entry[RUN], from = from })
      end
      entry[STATE] = 'abandoned'
      redis.call('HSET', q.key.blockers, field(job.rid, number), cmsgpack.pack(entry))
    end
  end
  job.more.open = 0
  H.store(q, job)
end

local function give_up_one(q, rid, queue, id)
  local job = H.load(q, rid)
  if not job or job.state ~= 'blocked' then return end
  if job.more.policy == 'cancel' then
    H.cancel(q, job, nil, 'blocker')
    H.recheck(q, job.more.key)
    return
  end
  local message = "it waited for '" .. queue .. '/' .. id .. "', which did not complete"
  local text = cjson.encode({
    type = 'BlockerFailed', message = message, kind = 'blocker', traceback = '', fields = { queue = queue, id = id },
  })
  H.take_away(q, job)
  H.fail(q, job, {
    error = { text = text, type = 'BlockerFailed', message = message }, cause = 'blocker', exit = 'fail', not_run = true,
  })
end

-- A job whose blocker did not complete follows its policy. One failure after another, down a long line, is a loop.
function H.give_up(q, what)
  if q.giving_up then
    q.giving_up[#q.giving_up + 1] = what
    return
  end
  q.giving_up = { what }
  local at = 1
  while q.giving_up[at] do
    give_up_one(q, unpack(q.giving_up[at]))
    at = at + 1
  end
  q.giving_up = nil
end

-- The chain that a run waits for begins with another run now, into which its first was merged.
function H.repoint_blocker(q, rid, number, first)
  local name = field(rid, number)
  local entry = entry_in(redis.call('HGET', q.key.blockers, name))
  if entry then
    entry[FIRST] = first
    redis.call('HSET', q.key.blockers, name, cmsgpack.pack(entry))
  end
end

-- fail: what a blocked run waits for cannot be read.
function H.give_up_unreadable(q, rid)
  local job = H.load(q, rid)
  if not job or job.state ~= 'blocked' then return end
  H.take_away(q, job)
  local error = H.error('corrupt', 'CorruptRecord', 'what it waits for cannot be read')
  H.fail(q, job, { error = error, cause = 'corrupt', exit = 'fail', not_run = true })
end

-- A blocker of a run of this queue is over.
function H.blocker_done(q, rid, number, outcome)
  local text = redis.call('HGET', q.key.blockers, field(rid, number))
  local entry = entry_in(text)
  if text and not entry then return H.give_up_unreadable(q, rid) end
  if not entry or entry[STATE] then return end
  fill(entry, outcome)
  redis.call('HSET', q.key.blockers, field(rid, number), cmsgpack.pack(entry))
  local job = H.load(q, rid)
  if not job or job.state ~= 'blocked' then return end
  job.more.open = job.more.open - 1
  if outcome.state ~= 'completed' and job.more.policy ~= 'ignore' then
    H.store(q, job)
    H.give_up(q, { rid, entry[QUEUE], entry[ID] })
  elseif job.more.open == 0 then
    H.unblock(q, job)
  else
    H.store(q, job)
  end
end

function H.receive.done(q, body)
  H.blocker_done(q, body.rid, body.number, body.outcome)
end

-- serve blockers: now, rid
--   reply: a list
--   in it, blocker_fields: queue, id, run, state, last_queue, last_task, error, result
H.serve('blockers', function(call, keys)
  local q, reply = H.queue(keys[1], call.now), {}
  local raw = redis.call('HGET', q.key.jobs, call.rid)
  if not raw then return reply end
  for _, entry in ipairs(entries_of(q, H.decode(call.rid, raw))) do
    for at = QUEUE, RESULT do reply[#reply + 1] = entry and entry[at] or false end
  end
  return reply
end)
