-- Keys of another type than ours: another program wrote there. What such a key holds is kept under another name, and what
-- the records say is put in its place again, a bounded number of records in each call.

local RUNS_LOST = 1000000 -- how many runs may have come behind the latest that is kept
local PUT_TOGETHER = {
  waiting = true, lane = true, suspects = true, scheduled = true, blocked = true, active = true, completed = true,
  failed = true, cancelled = true, letters = true, signatures = true, ids = true, past = true, dedup = true, lanes = true, ready = true,
  timed = true, cooling = true, running = true, expiries = true, dead = true, parked = true,
}

local function take_aside(wrong, base, key, name, rest)
  local found = redis.call('TYPE', key).ok
  if found == 'none' or found == KIND[name] then return end
  local aside = base .. NAME.mistyped .. name .. rest
  redis.call('RENAME', key, aside)
  local lost = PUT_TOGETHER[name] and 'put together again from the records of its jobs'
    or 'what it held before is lost; set or declare it again, or restore it from a backup'
  wrong[#wrong + 1] = { name .. rest, string.format('%s was a %s and no %s, and is %s now: %s', key, found, KIND[name], aside, lost) }
end

local function take_all_aside(base)
  local wrong = {}
  for name, ending in pairs(NAME) do
    if name ~= 'lane' and name ~= 'mistyped' then take_aside(wrong, base, base .. ending, name, '') end
  end
  for _, key in ipairs(redis.call('HKEYS', base .. NAME.lanes)) do
    take_aside(wrong, base, base .. NAME.lane .. key, 'lane', ':' .. key)
  end
  return wrong
end

local function hold_id(q, job)
  if not job.more.past then return redis.call('HSETNX', q.key.ids, job.id, job.rid) end
  for _, run in ipairs(H.unpacked(redis.call('HGET', q.key.past, job.id)) or {}) do
    if run == job.run then return end
  end
  H.to_past(q, job)
end

local function put_again(q, job)
  local more = job.more
  if job.state == 'active' then
    redis.call('HSET', q.key.active, job.rid, H.holder_text(more.session or '', more.key))
    if not H.session(q, more.session or '') then redis.call('SADD', q.key.dead, more.session or '') end
  elseif not FINISHED[job.state] then
    H.put(q, job)
  elseif more.expires_at then
    redis.call('ZADD', q.key[job.state], more.expires_at, job.rid)
  end
  if job.state == 'failed' then redis.call('ZADD', q.key.letters, job.run, job.rid) end
  if more.signature then redis.call('ZADD', q.key.signatures, 0, more.signature .. job.rid) end
  if more.dedup then H.note_dedup(q, job) end
  hold_id(q, job)
end

-- What follows from all of them: how many of each key are active, which keys may give a job, whose lease ends when.
local function count_again(q)
  redis.call('DEL', q.key.running)
  for _, text in ipairs(redis.call('HVALS', q.key.active)) do
    local _, key = H.holder(text)
    H.count_running(q, key, 1)
  end
  local sessions = redis.call('HKEYS', q.key.sessions)
  for _, id in ipairs(sessions) do
    local session = H.session(q, id)
    if session and not session.dead then redis.call('ZADD', q.key.expiries, session.expires_at, id) end
  end
  H.recheck_all(q)
  H.wake(q, MOST_WOKEN)
end

-- Numbers that were given out are not given out again.
local function number_on(q, run)
  redis.call('HSETNX', q.key.queue, 'run', run + RUNS_LOST)
  redis.call('HSETNX', q.key.queue, 'sent', q.now)
end

-- serve mistyped: now, queue, cursor, latest
--   reply: cursor, keys, latest
H.serve('mistyped', function(call, keys)
  local latest = call.latest
  local base = string.sub(keys[1], 1, #keys[1] - #NAME.queue)
  local wrong = take_all_aside(base)
  local begun = redis.call('HEXISTS', keys[1], 'mistyped') == 1 -- and it was not brought to its end
  if #wrong == 0 and not begun then return REPLY.mistyped({ cursor = '0', keys = 0, latest = 0 }) end
  local q = H.opened(keys[1], call.now, call.queue)
  redis.call('HSET', q.key.queue, 'mistyped', 1)
  local found = redis.call('HSCAN', q.key.jobs, call.cursor, 'COUNT', AT_ONCE)
  for index = 1, #found[2], 2 do
    local job = H.load(q, found[2][index])
    latest = math.max(latest, H.run_of(found[2][index]))
    if job and job.more.key then
      take_aside(wrong, base, H.lane_of(q, job.more.key), 'lane', ':' .. job.more.key)
      put_again(q, job)
      H.recheck(q, job.more.key)
    elseif job then
      put_again(q, job)
    end
  end
  for _, each in ipairs(wrong) do H.note(q, 'key', each[1], 0, each[2]) end
  if found[1] == '0' then
    number_on(q, latest)
    count_again(q)
    redis.call('HDEL', q.key.queue, 'mistyped')
  end
  return REPLY.mistyped({ cursor = found[1], keys = #wrong, latest = latest })
end)

-- Runs whose records a client could not read, though they looked well here: no text where there should be one.
-- serve set_aside: now, queue
--   then, over and over, run_arguments: rid
--   reply: a word
H.serve('set_aside', function(call, keys, args, at)
  local q = H.opened(keys[1], call.now, call.queue)
  for index = at, #args do
    local rid = args[index]
    local raw = redis.call('HGET', q.key.jobs, rid)
    if raw then H.set_aside(q, rid, raw) end
  end
  return 'ok'
end)
