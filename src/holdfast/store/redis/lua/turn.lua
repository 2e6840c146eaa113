-- What a worker calls: everything finished is settled, and what there is room for is claimed, in one step.
-- It loops over the transitions; it is none itself.

local SETTLE = {
  complete = function(...) H.complete(...) end, retry = function(...) H.retry(...) end,
  fail = function(q, job, entry)
    H.fail(q, job, { error = entry.error, cause = entry.cause, exit = 'fail', ttl = entry.ttl, count = true })
  end,
  snooze = function(...) H.snooze(...) end, release = function(...) H.release(...) end,
}

-- The word for a step of an attempt. The attempt before is remembered too: a repeat may come when somebody else
-- has claimed the job already.
function H.word(job, session, name, run, attempt, id)
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
    entry.next = { queue = plain.queue, id = plain.long, task = H.optional(plain.task), spec = {} }
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
  local word = H.word(job, session, entry.name, entry.run, entry.attempt, entry.id)
  if not job then
    H.forget_abort(q, entry.run, entry.attempt)
    H.recheck(q, H.let_go(q, rid))
    if redis.call('HGET', q.key.ids, entry.id) == rid then redis.call('HDEL', q.key.ids, entry.id) end
  end
  if word == 'stale' and job.more.session == session then H.forget_abort(q, entry.run, entry.attempt) end -- it knows
  if word ~= 'ok' then return word end
  if job.state == 'active' and job.more.attempts == entry.attempt then
    if job.more.cancel and (entry.name ~= 'complete' or entry.next) then -- to go on is no end
      H.cancelled(q, job, entry.name)
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
  local busy = #entries > AT_ONCE or H.any(q, 'lanes') or H.any(q, 'successors') or H.any(q, 'aborts')
    or H.any(q, 'dependants')
  local words = busy and {} or H.complete_all(q, session, entries)
  if not busy then H.go_on_all(q, session, entries, words) end
  for index, entry in ipairs(entries) do words[index] = words[index] or settle(q, session, entry_of(q, entry)) end
  return words
end

-- Room that was freed under a limit, and not taken here, wakes somebody else.
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
    if session.expires_at <= q.now or q.now - session.heard_at > lease / 3 then H.renew(q, id, session, lease) end
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

-- Whether a claim would find something, for a worker that may not claim here yet (the queues of a cluster).
local function look(q, reply)
  local next_at = not H.setting(q, 'paused') and H.next_at(q)
  reply[3] = next_at or -1
  local found = next_at and next_at <= q.now or H.is_waiting(q)
  reply[8] = found and not H.setting(q, 'paused') and 1 or 0
end

-- `room` is how many jobs the worker has room for; then, behind spaces, how many it holds, and "only" for suspects. An
-- older worker, which says nothing of what it holds, knows nothing of suspects.
local function asked_for(text)
  local room, held, only = string.match(text, '^(%d+) ?(%d*) ?(%a*)$')
  return tonumber(room), tonumber(held) or CROWD, only == 'only'
end

-- For each queue: its settlements (three arguments each), and its place in the order of claiming (0: none, -1: only
-- say whether there is something). `park` is empty, "park", or "idle" for a worker that may be given to. Then comes the
-- number of the latest gift that it knows of, and, if any, keys and names of queues that jobs of these go on in.
H.serve('turn', function(keys, args)
  local arg = H.reader(args)
  local now, shift, id, lease = H.now(arg()), tonumber(arg()), arg(), tonumber(arg())
  local room, held, only = asked_for(arg())
  local park, seed = arg(), tonumber(arg())
  local queues = {}
  for index, key in ipairs(keys) do
    queues[index] = H.queue(key, now)
    queues[index].seed = seed
    H.catch_up(queues[index], shift)
  end
  local late, sessions = hear(queues, id, lease)
  if not late then return { 'evicted', now } end
  local order, replies, freed = {}, {}, {}
  for index, q in ipairs(queues) do
    local rank, count, entries = tonumber(arg()), tonumber(arg()), {}
    for number = 1, count do entries[number] = { token = arg(), body = arg(), more = arg() } end
    q.entries, freed[index] = entries, count
    if rank > 0 then order[rank] = index end
    q.only_look = rank < 0
  end
  local known = tonumber(arg())
  local around = { unpack(queues) }
  for key in arg do around[#around + 1] = H.opened(key, now, arg()) end
  H.know_each_other(around)
  for index, q in ipairs(queues) do
    replies[index] = { settle_all(q, id, q.entries), {}, -1, 0, q.settings_text, {}, 0, 0 }
  end
  H.hand_over(around)
  local gift = H.given_again(queues[1], id, sessions[1], known)
  if gift then room, held = room - (#gift - 1) / 3, CROWD end
  for _, index in ipairs(order) do
    if room > 0 then
      local q, reply = queues[index], replies[index]
      local offer = H.claim(q, id, room, held, only)
      room, held = offer.room, held + offer.count
      reply[2], reply[3] = offer.claimed, offer.next_at or -1
      reply[4] = (offer.more and 1 or 0) + (offer.suspects and 2 or 0)
      q.offered = true
    end
  end
  for index, q in ipairs(queues) do
    pass_on(q, freed[index])
    decline(q, q.offered)
    if park ~= '' and room > 0 then
      redis.call('ZADD', q.key.parked, park == 'idle' and room + 0.5 or room, id)
    else
      H.unpark(q)
    end
    replies[index][6] = H.aborts(q, id)
    replies[index][7] = q.posted and H.undelivered(q) or NOTHING
    if q.only_look then look(q, replies[index]) end
  end
  local posted = {}
  for index = #queues + 1, #around do
    local q = around[index]
    if q.posted then posted[#posted + 1], posted[#posted + 2] = q.name, H.undelivered(q) end
  end
  return { 'alive', now, late, replies, posted, gift }
end)
