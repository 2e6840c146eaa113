-- unblock: blocked -> waiting | scheduled
-- guard: its last open blocker is done
-- effects: raise run_at to now, append event, wake one worker

-- What a run waits for is kept in one field for each, of the run and the place: queue, id, run, state (false while it is
-- open), queue and task of the chain's last job, error, result, and the run of the chain's first job, if that is here.
local QUEUE, ID, RUN, STATE, LAST_QUEUE, LAST_TASK, ERROR, RESULT, FIRST = 1, 2, 3, 4, 5, 6, 7, 8, 9

local function field(rid, place)
  return rid .. struct.pack('>I4', place)
end

-- Who waits for a chain of this queue: after the run of its first job, where the dependant is, its place and its id.
local function dependant(rid, from)
  return rid .. struct.pack('>I2', #from[1]) .. from[1] .. from[2] .. struct.pack('>I4', from[3]) .. from[4]
end

local function from_of(member)
  local size = struct.unpack('>I2', member, 7)
  local at = 9 + size
  return {
    string.sub(member, 9, at - 1), string.sub(member, at, at + 5), (struct.unpack('>I4', member, at + 6)),
    string.sub(member, at + 10),
  }
end

function H.dependants(q, rid)
  return redis.call('ZRANGEBYLEX', q.key.dependants, '[' .. rid, '(' .. H.rid(H.run_of(rid) + 1))
end

function H.short(id)
  local mark = string.byte(id, 1)
  if mark == 0 or mark == 1 then return '\0' .. id end
  if #id == 32 and string.find(id, '^[0-9a-f]+$') then
    return '\1' .. string.gsub(id, '..', function(pair) return string.char(tonumber(pair, 16)) end)
  end
  return id
end

-- The first job of the chain that is meant; or, when that is in another queue, where.
function H.chain_of(q, id, run)
  local job
  if run then job = H.find(q, id, run) else job = H.answering(q, id) end
  if not job or H.is_gone(q, job) then return nil end
  if not job.more.chain then return job end
  local chain = H.chain_parts(job.more.chain)
  if chain[1] ~= q.name then return nil, chain end
  return H.find(q, H.short(chain[2]), chain[3])
end

local function outcome_of(q, job)
  local more, state = job.more, H.outcome(job)
  local last = more.last or { q.name, job.task or false }
  return {
    state = state, result = job.result, error = state == 'failed' and more.error or nil, queue = last[1],
    task = last[2] or nil,
  }
end

local function missing(q, id)
  local error = H.error('blocker', 'BlockerMissing', 'there is no job ' .. q.name .. '/' .. id)
  return { state = 'failed', error = error.text }
end

-- How the chain ended that is meant: nil, and the run of its first job, while it is open; nil and where to ask.
local function look(q, id, run)
  local stored = H.short(id)
  local job, elsewhere = H.chain_of(q, stored, run)
  if elsewhere then return nil, nil, elsewhere end
  if not job then
    local new = run and H.successor(q, stored)
    if new and new.run == run then return nil, H.rid(run) end
    return missing(q, id)
  end
  if FINISHED[H.outcome(job)] then return outcome_of(q, job) end
  return nil, job.rid
end

local function fill(entry, outcome)
  entry[STATE], entry[LAST_QUEUE], entry[LAST_TASK] = outcome.state, outcome.queue or false, outcome.task or false
  entry[ERROR], entry[RESULT] = outcome.error or false, outcome.result or false
end

local function ask(q, target, id, run, from)
  H.send(q, target, 'register', { id = id, run = run or false, from = from })
end

-- One blocker of a run: its entry. What is in another queue is asked by a message, and open until that answers.
local function wait_for_one(q, job, place, ref)
  local queue, id, run = ref[1], ref[2], H.given(ref[3]) or nil
  local entry = { queue, id, run or false, false, false, false, false, false, false }
  local from = { q.name, job.rid, place, H.long(job.id) }
  if queue ~= q.name then
    ask(q, queue, id, run, from)
    return entry
  end
  local outcome, rid, elsewhere = look(q, id, run)
  if outcome then
    fill(entry, outcome)
  elseif elsewhere then
    ask(q, elsewhere[1], elsewhere[2], elsewhere[3], from)
  else
    redis.call('ZADD', q.key.dependants, 0, dependant(rid, from))
    entry[FIRST], q.has.dependants = rid, true
  end
  return entry
end

local function note(q, job, entries, policy)
  local open, failed, flat = 0, nil, {}
  for place, entry in ipairs(entries) do
    flat[#flat + 1], flat[#flat + 2] = field(job.rid, place), cmsgpack.pack(entry)
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
  for place, ref in ipairs(refs) do entries[place] = wait_for_one(q, job, place, ref) end
  return note(q, job, entries, policy)
end

local function entry_in(text)
  local entry = H.unpacked(text)
  return entry and type(entry[QUEUE]) == 'string' and type(entry[ID]) == 'string' and entry or nil
end

local function entries_of(q, job)
  local fields, entries = {}, {}
  for place = 1, job.more.waits or 0 do fields[place] = field(job.rid, place) end
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
  for place, entry in ipairs(entries) do
    if entry[STATE] ~= 'completed' then entries[place] = wait_for_one(q, job, place, { entry[QUEUE], entry[ID] }) end
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

-- The run is over before its blockers are: nobody need tell it any more.
function H.abandon(q, job)
  if (job.more.open or 0) == 0 then return end
  for place, entry in ipairs(entries_of(q, job)) do
    if entry and not entry[STATE] then
      local from = { q.name, job.rid, place, H.long(job.id) }
      if entry[FIRST] then
        redis.call('ZREM', q.key.dependants, dependant(entry[FIRST], from))
      else
        H.send(q, entry[QUEUE], 'unregister', { id = entry[ID], run = entry[RUN], from = from })
      end
      entry[STATE] = 'abandoned'
      redis.call('HSET', q.key.blockers, field(job.rid, place), cmsgpack.pack(entry))
    end
  end
  job.more.open = 0
  H.store(q, job)
end

function H.unblock(q, job)
  H.take_away(q, job)
  job.run_at = math.max(job.run_at, q.now)
  job.state = job.run_at > q.now and 'scheduled' or 'waiting'
  H.store(q, job)
  H.put(q, job)
  H.append(q, 'unblock', job)
  H.recheck(q, job.more.key)
  H.wake_for(q, job.run_at)
end

local function give_up_one(q, rid, queue, id)
  local job = H.load(q, rid)
  if not job or job.state ~= 'blocked' then return end
  if job.more.policy == 'cancel' then
    H.cancelled(q, job, nil, 'blocker')
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

-- fail: what a blocked run waits for cannot be read.
function H.give_up_unreadable(q, rid)
  local job = H.load(q, rid)
  if not job or job.state ~= 'blocked' then return end
  H.take_away(q, job)
  local error = H.error('corrupt', 'CorruptRecord', 'what it waits for cannot be read')
  H.fail(q, job, { error = error, cause = 'corrupt', exit = 'fail', not_run = true })
end

-- A blocker of a run of this queue is over.
local function done(q, rid, place, outcome)
  local text = redis.call('HGET', q.key.blockers, field(rid, place))
  local entry = entry_in(text)
  if text and not entry then return H.give_up_unreadable(q, rid) end
  if not entry or entry[STATE] then return end
  fill(entry, outcome)
  redis.call('HSET', q.key.blockers, field(rid, place), cmsgpack.pack(entry))
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

local function tell(q, from, outcome)
  if from[1] == q.name then
    done(q, from[2], from[3], outcome)
  else
    H.send(q, from[1], 'done', { rid = from[2], place = from[3], outcome = outcome })
  end
end

-- Whoever waits for the chain that begins with this run hears how it ended.
function H.report(q, rid, outcome)
  if not H.any(q, 'dependants') then return end
  local members = H.dependants(q, rid)
  if #members == 0 then return end
  H.in_parts(members, function(...) redis.call('ZREM', q.key.dependants, ...) end)
  for _, member in ipairs(members) do tell(q, from_of(member), outcome) end
end

function H.report_over(q, job)
  H.report(q, job.rid, outcome_of(q, job))
end

-- Who waits for a run that was merged into another waits for that one.
function H.repoint(q, run, to)
  if not H.any(q, 'dependants') then return end
  for _, member in ipairs(H.dependants(q, H.rid(run))) do
    redis.call('ZREM', q.key.dependants, member)
    redis.call('ZADD', q.key.dependants, 0, H.rid(to) .. string.sub(member, 7))
    local from = from_of(member)
    if from[1] == q.name then
      local name = field(from[2], from[3])
      local entry = entry_in(redis.call('HGET', q.key.blockers, name))
      if entry then
        entry[FIRST] = H.rid(to)
        redis.call('HSET', q.key.blockers, name, cmsgpack.pack(entry))
      end
    end
  end
end

-- Messages of other queues.

function H.receive.register(q, body)
  local run = body.run or nil
  local outcome, rid, elsewhere = look(q, body.id, run)
  if outcome then
    tell(q, body.from, outcome)
  elseif elsewhere then
    ask(q, elsewhere[1], elsewhere[2], elsewhere[3], body.from)
  else
    redis.call('ZADD', q.key.dependants, 0, dependant(rid, body.from))
    q.has.dependants = true
  end
end

function H.receive.unregister(q, body)
  local job, elsewhere = H.chain_of(q, H.short(body.id), body.run or nil)
  if elsewhere then
    body.id, body.run = elsewhere[2], elsewhere[3]
    H.send(q, elsewhere[1], 'unregister', body)
  elseif job then
    redis.call('ZREM', q.key.dependants, dependant(job.rid, body.from))
  elseif body.run then
    redis.call('ZREM', q.key.dependants, dependant(H.rid(body.run), body.from))
  end
end

function H.receive.done(q, body)
  done(q, body.rid, body.place, body.outcome)
end

-- Who waits for a chain: flat queue, run, id.
function H.waiting_for(q, rid)
  local reply = {}
  for _, member in ipairs(H.dependants(q, rid)) do
    local from = from_of(member)
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = from[1], H.run_of(from[2]), from[4]
  end
  return reply
end

H.serve('blockers', function(keys, args)
  local q, reply = H.queue(keys[1], 0), {}
  local raw = redis.call('HGET', q.key.jobs, args[1])
  if not raw then return reply end
  for _, entry in ipairs(entries_of(q, H.decode(args[1], raw))) do
    for at = QUEUE, RESULT do reply[#reply + 1] = entry and entry[at] or false end
  end
  return reply
end)
