-- What a worker calls: everything finished is settled, and what there is room for is claimed, in one step.
-- It loops over the transitions; it is none itself.

local SETTLE = {
  complete = function(...) H.complete(...) end, retry = function(...) H.retry(...) end,
  fail = function(q, job, entry)
    H.fail(q, job, { error = entry.error, cause = entry.cause, exit = 'fail', ttl = entry.ttl, count = entry.cause })
  end,
  snooze = function(...) H.snooze(...) end, release = function(...) H.release(...) end,
}

-- The word for a step of an attempt. The attempt before is remembered too: a repeat may come when another worker has
-- claimed the job already.
function H.word(job, session, name, attempt, id)
  if not job or job.id ~= id then return 'missing' end
  local more = job.more
  local attempts = more.attempts or 0
  if more.last_session == session and attempts == attempt + 1 then
    return more.last_exit == name and 'ok' or 'stale'
  end
  if more.session ~= session or attempts ~= attempt then return 'stale' end
  if job.state == 'active' then return 'ok' end
  return more.exit == name and 'ok' or 'stale'
end

-- A settlement is a token (run, attempt, id), a result or error, and the rest as JSON, which plain completions lack.
local function entry_of(q, given)
  local run, attempt = struct.unpack('>I6I4', given.token)
  local entry = { name = 'complete', run = run, attempt = attempt, id = string.sub(given.token, 11), body = given.body }
  local plain = H.next_of(q, given.more)
  if plain then
    entry.next = { queue = plain.queue, id = plain.long, task = H.optional(plain.task), spec = { envelope = plain.envelope } }
  elseif given.more ~= '' then
    for name, value in pairs(cjson.decode(given.more)) do entry[name] = value end
  end
  if entry.error_type then
    entry.error = { text = entry.body, type = entry.error_type, signature = entry.signature }
  end
  return entry
end

local function settle(q, session, entry)
  local rid = H.rid(entry.run)
  local job = H.load(q, rid) or H.load(q, rid) -- one that was set aside a moment ago is a dead letter now
  local word = H.word(job, session, entry.name, entry.attempt, entry.id)
  if not job then
    H.forget_abort(q, entry.run, entry.attempt)
    H.recheck(q, H.let_go(q, rid))
    if redis.call('HGET', q.key.ids, entry.id) == rid then redis.call('HDEL', q.key.ids, entry.id) end
  end
  if word == 'stale' and job.more.session == session then H.forget_abort(q, entry.run, entry.attempt) end -- it knows
  if word ~= 'ok' then return word end
  if job.state == 'active' and job.more.attempts == entry.attempt then
    if job.more.cancel and (entry.name ~= 'complete' or entry.next) then -- a chain that continues has not ended
      H.cancel(q, job, entry.name)
    else
      SETTLE[entry.name](q, job, entry)
    end
    H.forget_abort(q, entry.run, entry.attempt)
    H.recheck(q, job.more.key)
  end
  return 'ok ' .. job.state
end

-- Completions in a queue where nothing follows from them go together.
local function settle_all(q, session, entries)
  if #entries == 0 then return entries end
  local busy = #entries > AT_ONCE or H.any(q, 'successors') or H.any(q, 'aborts') or H.any(q, 'dependants')
  if not busy and #entries == 1 and entries[1].more == '' and not H.any(q, 'lanes') then
    local word = H.complete_one(q, session, entries[1])
    if word then return { word } end
  end
  local words = busy and {} or H.complete_all_plain(q, session, entries)
  if not busy and not H.any(q, 'lanes') then H.continue_all_plain(q, session, entries, words) end
  for index = 1, #entries do
    if not words[index] then words[index] = settle(q, session, entry_of(q, entries[index])) end
  end
  return words
end

-- Room that was freed under a limit, and not taken here, wakes another worker.
local function pass_on(q, freed)
  if freed == 0 then return end
  if H.setting(q, 'concurrency') or H.setting(q, 'rate') or H.setting(q, 'key_concurrency') or H.any(q, 'lanes') then
    H.wake(q, freed)
  end
end

-- The sessions of all queues, or nil when one of them is dead. A late one is renewed.
local function hear(queues, id, lease)
  local late, sessions = 0, {}
  for index, q in ipairs(queues) do
    local session = H.session(q, id)
    if not session or session.dead then return nil end
    sessions[index] = session
  end
  for index, q in ipairs(queues) do
    local session = sessions[index]
    if session.expires_at <= q.now then late = 1 end
    if session.expires_at <= q.now or q.now - session.heard_at > lease / 3 then H.extend(q, id, session, lease) end
    q.caller = id
    H.look_around(q)
  end
  return late, sessions
end

-- A wake-up that this worker has no room to follow goes to the next.
local function decline(q, offered)
  if not offered and not H.unpark(q) and not H.setting(q, 'concurrency') and not H.setting(q, 'rate')
    and redis.call('EXISTS', q.key.parked) == 1 and redis.call('EXISTS', q.key.waiting) == 1 then
    H.wake(q, 1)
  end
end

-- What a session that visits some of its many queues says of parking.
local PARTLY = { dry = true, none = true }

-- The same for a worker that stays parked in queues which its turns do not visit, so that it is also woken when it is full,
-- whatever the queue's limits are, and for more than it has room for.
local function pass_over(q)
  if not q.dry and not H.unpark(q) and redis.call('EXISTS', q.key.parked) == 1 and H.is_waiting(q) then H.wake(q, 1) end
end

-- Such a session parks where it found too few jobs, and stays parked where it did not ask for any. The reply says where it
-- has nothing to look for: a job that ended may have made room for another.
local function park_where_dry(call, q, room, reply)
  local asked = q.offered or q.only_look
  local parked = q.dry
  if not asked then parked = H.unpark(q) end
  if not parked then return H.unpark(q) end
  redis.call('ZADD', q.key.parked, math.max(1, room), call.session)
  if asked or #q.entries == 0 then reply.waiting = 0 end
end

local function park(call, q, room, reply)
  if call.parks == 'dry' then
    park_where_dry(call, q, room, reply)
  elseif room > 0 and (call.parks == 'park' or call.parks == 'idle') then
    redis.call('ZADD', q.key.parked, call.parks == 'idle' and room + 0.5 or room, call.session)
  else
    H.unpark(q)
  end
end

-- Whether a claim would find something, for a worker that may not claim here yet (the queues of a cluster).
local function look(q, reply)
  local next_at = not H.setting(q, 'paused') and H.next_at(q)
  reply.next_at = next_at or -1
  local found = next_at and next_at <= q.now or H.is_waiting(q)
  reply.waiting = found and not H.setting(q, 'paused') and 1
  q.dry = not reply.waiting
end

-- Attempts that ended in each queue, as far as its group says how many; and in which order to claim.
local function shared_out(call, queues, args, at)
  local order, share, settlement = {}, TAKES.queue_arguments, TAKES.settlement_arguments
  local entries_at = at + #queues * share.size
  for index, q in ipairs(queues) do
    local its, entries = share.read(args, at), {}
    for number = 1, its.settlements do
      entries[number] = settlement.read(args, entries_at)
      entries_at = entries_at + settlement.size
    end
    q.entries, q.only_look = entries, its.rank < 0
    if its.rank > 0 then order[its.rank] = index end
    at = at + share.size
  end
  return order, entries_at
end

-- These queues, and those that follow in the arguments, in which chains of these continue.
local function with_near(call, queues, args, at)
  local around, near = { unpack(queues) }, TAKES.near_arguments
  for index = at, #args, near.size do
    local its = near.read(args, index)
    around[#around + 1] = H.opened(its.key, call.now, its.name)
  end
  H.know_each_other(around)
  return around
end

-- Claim in the order of the queues' ranks; return the room that is left.
local function claim_all(call, queues, replies, order, room, held)
  for _, index in ipairs(order) do
    if room > 0 then
      local q, reply = queues[index], replies[index]
      local offer = H.claim(q, call.session, room, held, call.only_suspects)
      room, held = offer.room, held + offer.count
      reply.claimed, reply.next_at = offer.claimed, offer.next_at or -1
      reply.more, reply.suspects = offer.more and 1, offer.suspects and 1
      q.offered, q.dry = true, room > 0
    end
  end
  return room
end

local function posted_elsewhere(queues, around)
  local posted = {}
  for index = #queues + 1, #around do
    local q = around[index]
    if q.posted then posted[#posted + 1], posted[#posted + 2] = q.name, H.undelivered(q) end
  end
  return posted
end

-- serve turn: now, shift, session, lease_ms, room, held, only_suspects, parks, seed, received
--   then, over and over, queue_arguments: rank, settlements
--   then, over and over, settlement_arguments: token, body, more
--   then, over and over, near_arguments: key, name
--   reply: status, now, late, queues, posted, given
--   in it, queue_turn: words, claimed, next_at, more, suspects, settings, aborts, posted, waiting
--   in it, claimed_fields: run, record, timeout_ms
--   in it, abort_fields: id, run, attempt, reason
--   in it, posted_fields: queue, messages
--   in it, given_fields: number, claimed
H.serve('turn', function(call, keys, args, at)
  local id, queues, replies = call.session, {}, {}
  for index, key in ipairs(keys) do
    local q = H.queue(key, call.now)
    q.seed = call.seed
    H.catch_up(q, call.shift)
    queues[index] = q
  end
  local late, sessions = hear(queues, id, call.lease_ms)
  if not late then return REPLY.turn({ status = 'evicted', now = call.now }) end
  local order, behind = shared_out(call, queues, args, at)
  local around = with_near(call, queues, args, behind)
  for index, q in ipairs(queues) do
    replies[index] = {
      words = settle_all(q, id, q.entries), claimed = NOTHING, next_at = -1, more = false, suspects = false,
      settings = q.settings_text, aborts = NOTHING, posted = NOTHING, waiting = false,
    }
  end
  H.deliver_nearby(around)
  local room, held = call.room, call.held
  local given = H.unheard(queues[1], id, sessions[1], call.received)
  if given then room, held = room - #given.claimed / 3, CROWD end
  room = claim_all(call, queues, replies, order, room, held)
  for index, q in ipairs(queues) do
    local reply = replies[index]
    if q.only_look then look(q, reply) end
    pass_on(q, #q.entries)
    if PARTLY[call.parks] then pass_over(q) else decline(q, q.offered) end
    park(call, q, room, reply)
    reply.aborts = H.aborts(q, id)
    if q.posted then reply.posted = H.undelivered(q) end
    replies[index] = REPLY.queue_turn(reply)
  end
  return REPLY.turn({
    status = 'alive', now = call.now, late = late, queues = replies, posted = posted_elsewhere(queues, around),
    given = given and REPLY.given_fields(given),
  })
end)
