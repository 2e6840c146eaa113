-- claim: waiting -> active
-- guard: the queue's limits allow it, the worker has room, and a suspect no more company than it may have
-- effects: count an attempt, give the lease, append event

-- How many jobs the queue's own limits let start now, and the tokens of its bucket.
local function allowed_now(q, room)
  local concurrency = H.setting(q, 'concurrency')
  if concurrency then room = math.min(room, concurrency - redis.call('HLEN', q.key.active)) end
  local rate = H.setting(q, 'rate')
  if not rate then return room end
  local stored = redis.call('HMGET', q.key.queue, 'tokens', 'tokens_at')
  local tokens = H.refilled(rate, H.number(stored[1]), H.number(stored[2]), q.now)
  return math.min(room, math.floor(tokens)), tokens
end

function H.is_waiting(q)
  return redis.call('EXISTS', q.key.waiting) == 1 or redis.call('EXISTS', q.key.ready) == 1 or H.any(q, 'suspects')
end

-- Whether it is known already that nothing waits, now or later.
function H.is_empty(q)
  local has = q.has
  return has.waiting == false and has.scheduled == false and has.lanes == false and has.suspects == false
end

-- The bucket is less by what was claimed; return when the queue may give again.
local function pay(q, tokens, count, next_at)
  tokens = tokens - count
  redis.call('HSET', q.key.queue, 'tokens', string.format('%.17g', tokens), 'tokens_at', q.now)
  if tokens >= 1 then return next_at end
  local token_at = H.token_at(H.setting(q, 'rate'), tokens, q.now)
  if H.is_waiting(q) then return token_at end
  return next_at and math.max(next_at, token_at)
end

function H.next_at(q)
  local scheduled = q.soonest
  if scheduled == nil then scheduled = H.next_scheduled(q) end
  local timed = H.any(q, 'lanes') and redis.call('ZRANGE', q.key.timed, 0, 0, 'WITHSCORES')[2]
  timed = timed and tonumber(timed)
  if scheduled and timed then return math.min(scheduled, timed) end
  return scheduled or timed
end

local function pop(key, count)
  local rids, found = {}, redis.call('ZPOPMIN', key, count)
  for index = 1, #found, 2 do rids[#rids + 1] = string.sub(found[index], -6) end
  return rids
end

local function ready_lanes(q, room, keyless)
  local found = redis.call('ZRANGE', q.key.ready, 0, room - 1, 'WITHSCORES')
  local ready = {}
  for index = 1, #found, 2 do ready[#ready + 1] = { found[index], tonumber(found[index + 1]) } end
  if redis.call('EXISTS', q.key.waiting) == 1 then
    local at = 1
    while ready[at] and ready[at][2] <= keyless do at = at + 1 end
    table.insert(ready, at, { false, keyless })
    ready[room + 1] = nil
  end
  return ready
end

-- The next jobs of these lanes in turns, at most so many rounds, and the lane of each; '' for a lane that has none.
local function next_in_turns(q, lanes, rounds)
  local found, rids, lanes_of = {}, {}, {}
  for index, lane in ipairs(lanes) do found[index] = pop(H.lane_of(q, lane[1] or nil), rounds) end
  for round = 1, rounds do
    for index, lane in ipairs(lanes) do
      local rid = found[index][round] or (round == 1 and '')
      if rid then rids[#rids + 1], lanes_of[#lanes_of + 1] = rid, lane end
    end
  end
  return rids, lanes_of
end

-- One more job of each lane, or of a few lanes several in turns. Return the turn of the last, and that of jobs without a key.
local function take_from(q, lanes, rounds, taken, turn, keyless)
  local rids, lanes_of = next_in_turns(q, lanes, rounds)
  local raws, served, lacking = redis.call('HMGET', q.key.jobs, unpack(rids)), H.tally(), {}
  for number, rid in ipairs(rids) do
    local key, raw = lanes_of[number][1] or nil, raws[number]
    turn = turn + 1
    if raw then
      taken.rids[#taken.rids + 1], taken.raws[#taken.raws + 1] = rid, raw
      q.keys_of_taken[rid] = key
    elseif rid ~= '' then
      H.set_aside(q, rid)
    end
    if not key then
      keyless = turn
    elseif raw then
      H.count(served, key, 1, turn)
    else
      lacking[#lacking + 1] = key
    end
  end
  H.count_and_recheck(q, served)
  for _, key in ipairs(lacking) do
    if not served.index[key] then H.recheck(q, key) end
  end
  return turn, keyless
end

-- The key that was served least recently comes first; jobs without a key are one group with its own turn.
local function take_in_turns(q, room)
  local taken = { rids = {}, raws = {} }
  q.keys_of_taken = {}
  local stored = redis.call('HMGET', q.key.queue, 'turn', 'keyless_turn')
  local turn, keyless = H.number(stored[1], 0), H.number(stored[2], 0)
  while #taken.rids < room do
    local left = room - #taken.rids
    local lanes = ready_lanes(q, left, keyless)
    if #lanes == 0 then break end
    turn, keyless = take_from(q, lanes, H.rounds(q, lanes, left), taken, turn, keyless)
  end
  redis.call('HSET', q.key.queue, 'turn', turn, 'keyless_turn', keyless)
  return taken.rids, taken.raws
end

local function is_json(text)
  return not text or (pcall(H.json, text))
end

-- fail: a waiting job at its limit, or whose record cannot be read, is over, its handler not run.
local function refuse(q, job, cause)
  local more = job.more
  H.count_running(q, more.key, -1)
  H.refund(q, more.key)
  local error
  if cause == 'corrupt' then
    error = H.error('corrupt', 'CorruptRecord', 'its envelope, overrides or last error cannot be read')
  elseif more.error then
    error = { text = more.error, type = H.json(more.error).type, message = H.json(more.error).message }
  else
    error = H.error(cause, 'LimitReached', 'the limit for ' .. cause .. ' was lowered')
  end
  H.fail(q, job, { error = error, cause = cause, exit = more.exit or 'fail', not_run = true })
  H.recheck(q, more.key)
end

local function cause_to_refuse(retry, more)
  if not (is_json(more.envelope) and is_json(more.overrides) and is_json(more.error)) then return 'corrupt' end
  return H.spent(retry, more)
end

local function start(q, session, job)
  local more = job.more
  local ready_at = more.ready_at or job.run_at
  more.last_session, more.last_exit = more.session, more.exit
  more.session, more.exit, more.claimed_at = session, nil, q.now
  more.attempts = (more.attempts or 0) + 1
  job.state = 'active'
  H.append(q, 'claim', job, { worker = session, wait = math.max(0, q.now - ready_at) })
end

-- The job is the session's: its new record, its holder and its time-out. Nil when it may not start.
local function claim_any(q, session, rid, raw)
  local fine, job = pcall(H.decode, rid, raw)
  if not fine then
    local key = q.keys_of_taken and q.keys_of_taken[rid]
    if key then H.count_running(q, key, -1) end
    H.set_aside(q, rid, redis.call('HGET', q.key.jobs, rid))
    return H.recheck(q, key or nil)
  end
  local _, retry, timeout = H.policy(q, job)
  local cause = next(job.more) and cause_to_refuse(retry, job.more)
  if cause then return refuse(q, job, cause) end
  start(q, session, job)
  return H.encode(job), H.holder_text(session, job.more.key), timeout or -1
end

-- What may start is the session's. Records and leases are written together, after the last of them.
local function hand_out(q, session, rids, claimed, raws)
  if #rids == 0 then return end
  local records, holders = {}, {}
  raws = raws or redis.call('HMGET', q.key.jobs, unpack(rids))
  H.start_log(q)
  local at, given, claim_plain = 0, #claimed, #rids > 1 and H.claim_alike or H.claim_plain
  for index = 1, #rids do
    local rid, raw = rids[index], raws[index] or ''
    local record, holder, timeout = claim_plain(q, session, rid, raw)
    if not record then
      record, holder, timeout = claim_any(q, session, rid, raw)
      raw = record
    end
    if record then
      records[at + 1], records[at + 2], holders[at + 1], holders[at + 2] = rid, record, rid, holder
      claimed[given + 1], claimed[given + 2], claimed[given + 3] = rid, raw, timeout
      at, given = at + 2, given + 3
    end
  end
  if #records > 0 then
    redis.call('HSET', q.key.jobs, unpack(records))
    redis.call('HSET', q.key.active, unpack(holders))
  end
end

-- The session, which holds `held` in all its queues, has up to `room` jobs more; of suspects only, if `only`. `claimed`
-- is flat: run, record (as it was, for a first attempt), timeout.
function H.claim(q, session, room, held, only)
  local offer = { claimed = {}, count = 0, more = false, room = room }
  if H.setting(q, 'paused') or H.is_empty(q) then return offer end
  H.promote_due(q)
  local allowed, tokens = allowed_now(q, room)
  local suspects = H.take_suspects(q, allowed, held)
  if #suspects.rids > 0 then
    hand_out(q, session, suspects.rids, offer.claimed)
    offer.count = #offer.claimed / 3
    allowed, room = math.min(allowed, suspects.room), math.min(room, suspects.room)
  end
  while offer.count < allowed and not only do -- more than once only when something that cannot start stood in front
    local wanted = math.min(allowed - offer.count, AT_ONCE)
    local rids, raws
    if H.any(q, 'lanes') then rids, raws = take_in_turns(q, wanted) else rids = pop(q.key.waiting, wanted) end
    hand_out(q, session, rids, offer.claimed, raws)
    offer.count = #offer.claimed / 3
    if #rids == 0 then break end
  end
  offer.next_at = H.next_at(q)
  if suspects.next_at then offer.next_at = math.min(suspects.next_at, offer.next_at or suspects.next_at) end
  if tokens then offer.next_at = pay(q, tokens, offer.count, offer.next_at) end
  local concurrency = H.setting(q, 'concurrency')
  if concurrency and redis.call('HLEN', q.key.active) >= concurrency then
    offer.next_at = nil -- only the end of a running job makes room, and that wakes a parked worker
  end
  offer.more = offer.count == allowed and allowed == room
  offer.room, offer.suspects = room - offer.count, suspects.left
  return offer
end
