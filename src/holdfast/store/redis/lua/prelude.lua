-- What every transition works with: the queue at hand, job records, the log, and whoever is to be told.
-- `NAME` (the ends of all keys) and `VERSION` come from Python; see keys.py and library.py.

local H = {}
local MOST_PROMOTED = 200
local MOST_WOKEN = 64
local AT_ONCE = 1000 -- arguments of one command; Lua's stack has room for 8,000
local KEPT_FOR_WATCHERS_MS = 60000
local REMEMBERED_MS = 600000
local REAPING_LEASE_NOTE = 'its worker vanished while it ran'
local COUNTER = { failure = 'failures', timeout = 'timeouts', stall = 'stalls', release = 'releases' }
local CAUSES = { 'failure', 'timeout', 'stall', 'release' }
local LETTER = {
  blocked = 'b', scheduled = 's', waiting = 'w', active = 'a', completed = 'c', failed = 'f', cancelled = 'x',
}
local WORD = {
  b = 'blocked', s = 'scheduled', w = 'waiting', a = 'active', c = 'completed', f = 'failed', x = 'cancelled',
}
local NOTHING = {}
local FINISHED = { completed = true, failed = true, cancelled = true }

-- Functions: those that only look may be asked of a replica; those that make room work though memory is full.

local LOOKS, DRAINS = { 'no-writes' }, { 'allow-oom' }
local FLAGS = {
  get = LOOKS, records = LOOKS, glance = LOOKS, pending = LOOKS, sessions = LOOKS, version = LOOKS,
  schedules = LOOKS, due = LOOKS,
  turn = DRAINS, extend = DRAINS, leave = DRAINS, held = DRAINS, reap = DRAINS, expire = DRAINS, delete = DRAINS,
  cancel = DRAINS, outbox = DRAINS, hear = DRAINS,
}

function H.serve(name, callback)
  redis.register_function({ function_name = PREFIX .. name, callback = callback, flags = FLAGS[name] or {} })
end

-- JSON that is read over and over (settings, policies, overrides) is decoded once.

local decoded, decoded_count = {}, 0

function H.json(text)
  local value = decoded[text]
  if value == nil then
    value = cjson.decode(text)
    if decoded_count >= 500 then decoded, decoded_count = {}, 0 end
    decoded[text] = value
    decoded_count = decoded_count + 1
  end
  return value
end

function H.given(value) -- cjson's null is not nil
  if value == cjson.null then return nil end
  return value
end

-- The queue at hand.

function H.now(given)
  if given ~= '' then return tonumber(given) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local all_keys, all_keys_count = {}, 0

local function keys_of(base)
  local keys = all_keys[base]
  if not keys then
    if all_keys_count >= 1000 then all_keys, all_keys_count = {}, 0 end
    keys = {}
    for name, ending in pairs(NAME) do keys[name] = base .. ending end
    all_keys[base] = keys
    all_keys_count = all_keys_count + 1
  end
  return keys
end

-- `key` is the queue's own hash, the one declared key of its slot; all others are built from it.
function H.queue(key, now)
  local base = string.sub(key, 1, #key - #NAME.queue)
  local q = { base = base, key = keys_of(base), now = now }
  local found = redis.call('HMGET', q.key.queue, 'name', 'epoch', 'settings')
  q.name, q.epoch, q.settings_text = found[1], found[2], found[3] or '{}'
  q.settings = H.json(q.settings_text)
  return q
end

-- The same, and the queue is known from now on.
function H.opened(key, now, name)
  local q = H.queue(key, now)
  if not q.epoch then
    local time = redis.call('TIME')
    q.name, q.epoch = name, string.format('%.0f', time[1] * 1000000 + time[2])
    redis.call('HSET', q.key.queue, 'name', name, 'epoch', q.epoch)
  end
  return q
end

function H.setting(q, name)
  return H.given(q.settings[name])
end

function H.result_ttl(q)
  return H.setting(q, 'result_ttl_ms') or 3600000
end

function H.retention(q, name, default)
  local kept = H.setting(q, 'retention')
  return kept and H.given(kept[name]) or default
end

function H.kept_ms(q, state)
  if state == 'cancelled' then return 0 end
  return math.floor(H.retention(q, state, state == 'failed' and 604800 or 0) * 1000 + 0.5)
end

-- How many entries a hash has, asked once for each call: most queues have no lanes, watchers or successors.
function H.any(q, name)
  local known = q['any_' .. name]
  if known == nil then
    known = redis.call('HLEN', q.key[name]) > 0
    q['any_' .. name] = known
  end
  return known
end

-- Arguments, read in order and by name.

function H.reader(args)
  local at = 0
  return function()
    at = at + 1
    return args[at]
  end
end

function H.optional(text)
  if text ~= '' then return text end
end

-- Job records: a short head, what of the rest there is (by the flags), then id, task, payload, checkpoint, result.
-- MessagePack is slow here, so that what every job has or gets is packed by hand. `record.py` reads the same.

local HEAD, HEAD_SIZE = '>c1BI2BI6', 11
local RUN_AT, PRIORITY, LIFE, RESULT, REST, LONG_TASK = 1, 2, 4, 8, 16, 32 -- the last: the size of its name follows
local LIFE_FORMAT = '>I4I7I7I7I7Bc0I2c0'
local OF_LIFE = {
  attempts = true, claimed_at = true, finished_at = true, free_at = true, expires_at = true, exit = true, session = true,
}

function H.rid(run)
  return struct.pack('>I6', run)
end

function H.run_of(rid)
  return (struct.unpack('>I6', rid))
end

local function or_nil(value, nothing)
  if value ~= nothing then return value end
end

local function decode_life(raw, at)
  local attempts, claimed_at, finished_at, free_at, expires_at, exit, session, after = struct.unpack(LIFE_FORMAT, raw, at)
  return {
    attempts = or_nil(attempts, 0), claimed_at = or_nil(claimed_at, 0), finished_at = or_nil(finished_at, 0),
    free_at = or_nil(free_at, 0), expires_at = or_nil(expires_at, 0), exit = or_nil(exit, ''),
    session = or_nil(session, ''),
  }, after
end

function H.decode(rid, raw)
  local state, flags, id_size, task_size, enqueued_at = struct.unpack(HEAD, raw)
  local at, run_at, priority, more = HEAD_SIZE + 1, enqueued_at, 0, nil
  if flags % 2 >= RUN_AT then run_at, at = struct.unpack('>I7', raw, at) end
  if flags % 4 >= PRIORITY then
    priority, at = struct.unpack('>I2', raw, at)
    priority = priority - 1000
  end
  if flags % 8 >= LIFE then more, at = decode_life(raw, at) end
  more = more or {}
  local result_size
  if flags % 16 >= RESULT then result_size, at = struct.unpack('>I4', raw, at) end
  if flags % 32 >= REST then
    local size
    size, at = struct.unpack('>I4', raw, at)
    for name, value in pairs(cmsgpack.unpack(string.sub(raw, at, at + size - 1))) do more[name] = value end
    at = at + size
  end
  if flags >= LONG_TASK then task_size, at = struct.unpack('>I2', raw, at) end
  local job = {
    rid = rid, run = H.run_of(rid), id = string.sub(raw, at, at + id_size - 1), state = WORD[state],
    task = task_size > 0 and string.sub(raw, at + id_size, at + id_size + task_size - 1) or nil,
    priority = priority, enqueued_at = enqueued_at, run_at = run_at, more = more,
  }
  at = at + id_size + task_size
  local size = #raw - at + 1 - (more.checkpoint_size or 0) - (result_size or 0)
  job.payload = string.sub(raw, at, at + size - 1)
  at = at + size
  if more.checkpoint_size then
    job.checkpoint = string.sub(raw, at, at + more.checkpoint_size - 1)
    at = at + more.checkpoint_size
  end
  if result_size then job.result = string.sub(raw, at) end
  if not job.state then error('no such state') end
  return job
end

local function encode_more(more, result)
  local flags, life, rest = 0, '', nil
  if more.attempts or more.finished_at then
    flags = flags + LIFE
    local exit, session = more.exit or '', more.session or ''
    life = struct.pack(
      LIFE_FORMAT, more.attempts or 0, more.claimed_at or 0, more.finished_at or 0, more.free_at or 0,
      more.expires_at or 0, #exit, exit, #session, session
    )
  end
  if result then
    flags = flags + RESULT
    life = life .. struct.pack('>I4', #result)
  end
  for name, value in pairs(more) do
    if not OF_LIFE[name] then
      rest = rest or {}
      rest[name] = value
    end
  end
  if not rest then return flags, life end
  local text = cmsgpack.pack(rest)
  return flags + REST, life .. struct.pack('>I4', #text) .. text
end

function H.encode(job)
  local more, flags, middle = job.more, 0, ''
  more.checkpoint_size = job.checkpoint and #job.checkpoint or nil
  if next(more) ~= nil then flags, middle = encode_more(more, job.result) end
  if job.priority ~= 0 then
    flags = flags + PRIORITY
    middle = struct.pack('>I2', job.priority + 1000) .. middle
  end
  if job.run_at ~= job.enqueued_at then
    flags = flags + RUN_AT
    middle = struct.pack('>I7', job.run_at) .. middle
  end
  local task = job.task or ''
  if #task > 255 then
    flags = flags + LONG_TASK
    middle = middle .. struct.pack('>I2', #task)
  end
  local head = struct.pack(HEAD, LETTER[job.state], flags, #job.id, math.min(#task, 255), job.enqueued_at)
  return head .. middle .. job.id .. task .. job.payload .. (job.checkpoint or '') .. (job.result or '')
end

-- Return the record of a run: nil when it is gone. One that is nothing we ever wrote is put aside as if it were.
function H.load(q, rid)
  local raw = redis.call('HGET', q.key.jobs, rid)
  if not raw then return nil end
  local fine, job = pcall(H.decode, rid, raw)
  if fine then return job end
  H.set_aside(q, rid, raw)
  return nil
end

function H.store(q, job)
  redis.call('HSET', q.key.jobs, job.rid, H.encode(job))
end

function H.set_aside(q, rid, raw)
  if raw then
    redis.call('HSET', q.key.corrupt, rid, raw)
    redis.call('HDEL', q.key.jobs, rid)
  end
  H.append(q, 'fail', {
    rid = rid, run = H.run_of(rid), id = '', state = 'failed', priority = 0, run_at = q.now, more = {},
  }, { cause = 'corrupt', error_type = 'CorruptRecord', message = 'its record is gone or cannot be read' })
end

-- Ids of 32 hexadecimal digits are kept as 16 bytes behind a mark; others that begin like one, behind a zero byte.

function H.long(id)
  local mark = string.byte(id, 1)
  if mark == 0 then return string.sub(id, 2) end
  if mark ~= 1 then return id end
  return (string.gsub(string.sub(id, 2), '.', function(c) return string.format('%02x', string.byte(c)) end))
end

-- Places: waiting jobs by priority, run_at and run; scheduled ones by run_at and run.

function H.place(job)
  return struct.pack('>I2I7I6', 1000 - job.priority, job.run_at, job.run)
end

function H.lane_of(q, key)
  if key then return q.key.lane .. key end
  return q.key.waiting
end

function H.put(q, job)
  if job.state == 'waiting' then
    redis.call('ZADD', H.lane_of(q, job.more.key), 0, H.place(job))
  elseif job.state == 'scheduled' then
    redis.call('ZADD', q.key.scheduled, job.run_at, job.rid)
  end
end

function H.take_away(q, job)
  if job.state == 'waiting' then
    redis.call('ZREM', H.lane_of(q, job.more.key), H.place(job))
  elseif job.state == 'scheduled' then
    redis.call('ZREM', q.key.scheduled, job.rid)
  end
end

-- The active: run -> session, and the key behind a mark; and how many of each key.

function H.holder_text(session, key)
  return struct.pack('>I2', #session) .. session .. (key and '=' .. key or '')
end

function H.holder(text)
  local size = struct.unpack('>I2', text)
  local key
  if #text > size + 2 then key = string.sub(text, size + 4) end
  return string.sub(text, 3, size + 2), key
end

function H.count_running(q, key, by)
  if key and redis.call('HINCRBY', q.key.running, key, by) <= 0 then redis.call('HDEL', q.key.running, key) end
end

-- The run is no longer active, whatever became of its record.
function H.let_go(q, rid)
  local text = redis.call('HGET', q.key.active, rid)
  if not text then return nil end
  local _, key = H.holder(text)
  redis.call('HDEL', q.key.active, rid)
  H.count_running(q, key, -1)
  return key
end

-- Ids: which run holds one, and which earlier runs of it are kept.

function H.latest_past(q, id)
  local text = redis.call('HGET', q.key.past, id)
  if not text then return nil end
  local runs = cmsgpack.unpack(text)
  for index = #runs, 1, -1 do
    local job = H.load(q, H.rid(runs[index]))
    if job and not H.is_gone(q, job) then return job end
  end
end

function H.to_past(q, job)
  local text = redis.call('HGET', q.key.past, job.id)
  local runs = text and cmsgpack.unpack(text) or {}
  runs[#runs + 1] = job.run
  table.sort(runs)
  redis.call('HSET', q.key.past, job.id, cmsgpack.pack(runs))
end

local function without(runs, run)
  local kept = {}
  for _, each in ipairs(runs) do
    if each ~= run then kept[#kept + 1] = each end
  end
  return kept
end

local function drop_from(key, field, run)
  local text = redis.call('HGET', key, field)
  if not text then return end
  local kept = without(cmsgpack.unpack(text), run)
  if #kept > 0 then redis.call('HSET', key, field, cmsgpack.pack(kept)) else redis.call('HDEL', key, field) end
end

-- The run holds its id no longer; the caller stores the record.
function H.free_id(q, job)
  if job.more.past then return end
  job.more.past = true
  if redis.call('HGET', q.key.ids, job.id) == job.rid then redis.call('HDEL', q.key.ids, job.id) end
  H.to_past(q, job)
end

-- Return the run that holds an id. A finished one whose TTL is over lets go of it here.
function H.holding(q, id)
  local rid = redis.call('HGET', q.key.ids, id)
  if not rid then return nil end
  local job = H.load(q, rid)
  if not job then
    redis.call('HDEL', q.key.ids, id)
    return nil
  end
  if job.more.free_at and job.more.free_at <= q.now then
    H.free_id(q, job)
    H.store(q, job)
    return nil
  end
  return job
end

function H.is_gone(q, job)
  return job.more.expires_at ~= nil and job.more.expires_at <= q.now
end

-- Return the run that holds an id, or else its latest that is still kept.
function H.answering(q, id)
  return H.holding(q, id) or H.latest_past(q, id)
end

-- Deduplication keys: the runs that were taken in under each.

function H.dedup_field(task, key)
  return (task and (#task .. ':' .. task) or ':') .. '/' .. key
end

function H.note_dedup(q, job)
  local field = H.dedup_field(job.task, job.more.dedup)
  local text = redis.call('HGET', q.key.dedup, field)
  local runs = text and without(cmsgpack.unpack(text), job.run) or {}
  runs[#runs + 1] = job.run
  table.sort(runs)
  redis.call('HSET', q.key.dedup, field, cmsgpack.pack(runs))
end

function H.forget_dedup(q, job)
  if job.more.dedup then drop_from(q.key.dedup, H.dedup_field(job.task, job.more.dedup), job.run) end
end

-- The run and everything that points to it is gone.
function H.remove(q, job)
  H.take_away(q, job)
  if job.state == 'active' then H.let_go(q, job.rid) end
  if FINISHED[job.state] then
    redis.call('ZREM', q.key[job.state], job.rid)
    if job.state == 'failed' then redis.call('ZREM', q.key.letters, job.rid) end
  end
  if job.more.past then
    drop_from(q.key.past, job.id, job.run)
  elseif redis.call('HGET', q.key.ids, job.id) == job.rid then
    redis.call('HDEL', q.key.ids, job.id)
  end
  H.forget_dedup(q, job)
  redis.call('HDEL', q.key.jobs, job.rid)
end

-- The log: one entry for each transition. The id stands alone, because it may be bytes.

local EVENT = '>Bc0c1I6I4I7I7I2I6I6I2c0I2c0'

-- what: worker, cause, wait, ran, error_type, signature, message, progress, payload (keep it), gone (no state).
function H.append(q, transition, job, what)
  local more, task = job.more, job.task or ''
  what = what or NOTHING
  local worker, rest = what.worker or '', nil
  if more.failures or more.stalls or more.timeouts or more.releases then
    rest = { counters = { more.failures or 0, more.stalls or 0, more.timeouts or 0, more.releases or 0 } }
  end
  if more.key or what.cause or what.error_type or what.message or what.progress then
    rest = rest or {}
    rest.key, rest.cause, rest.error_type = more.key, what.cause, what.error_type
    rest.signature, rest.message, rest.progress = what.signature, what.message, what.progress
  end
  local text = struct.pack(
    EVENT, #transition, transition, what.gone and '-' or LETTER[job.state], job.run, more.attempts or 0, q.now,
    job.run_at, job.priority + 1000, what.wait and what.wait + 1 or 0, what.ran and what.ran + 1 or 0, #task, task,
    #worker, worker
  )
  if rest then text = text .. cmsgpack.pack(rest) end
  q.next_event = q.next_event or q.epoch .. '-*'
  if what.payload then
    redis.call('XADD', q.key.events, q.next_event, 'i', job.id, 'e', text, 'p', job.payload)
  else
    redis.call('XADD', q.key.events, q.next_event, 'i', job.id, 'e', text)
  end
end

function H.keeps_payloads(q)
  return q.settings.history == 'payloads'
end

-- What an event says of an attempt that has just ended.
function H.ending(q, job, error)
  return {
    worker = job.more.session, ran = math.max(0, q.now - (job.more.claimed_at or q.now)),
    error_type = error and error.type, signature = error and error.signature,
    message = error and not error.signature and error.message or nil,
  }
end

-- Errors: `text` is the stored JSON; `signature` comes with those of handlers.

function H.error(kind, type, message)
  local text = cjson.encode({ type = type, message = message, kind = kind, traceback = '' })
  return { text = text, type = type, message = message }
end

-- Wake-ups: a hint to one listener of one process. One that is lost costs a poll.

function H.ring(address, message)
  local channel, number = string.match(address, '^(.*)#(%d+)$')
  if channel then redis.call('PUBLISH', channel, number .. (message or '')) end
end

function H.ring_session(q, session)
  local text = redis.call('HGET', q.key.sessions, session)
  local address = text and cmsgpack.unpack(text).address
  if address then H.ring(address) end
end

-- Enough parked workers for so many jobs are woken, no more; those with the most room first.
function H.wake(q, jobs)
  local woken = 0
  while jobs > 0 and woken < MOST_WOKEN do
    local found = redis.call('ZPOPMAX', q.key.parked)
    if #found == 0 then return end
    H.ring_session(q, found[1])
    jobs = jobs - tonumber(found[2])
    woken = woken + 1
  end
end

function H.next_scheduled(q)
  local found = redis.call('ZRANGE', q.key.scheduled, 0, 0, 'WITHSCORES')
  return found[2] and tonumber(found[2])
end

-- Somebody knows of a job that came back to the queue: now, or when to wake for it.
function H.wake_for(q, run_at)
  if run_at <= q.now or H.next_scheduled(q) == run_at then H.wake(q, 1) end
end

-- Watchers: by id, each with the run that it waits for.

function H.watch(q, id, run, address)
  local text = redis.call('HGET', q.key.watchers, id)
  local found = text and cmsgpack.unpack(text) or {}
  for _, each in ipairs(found) do
    if each[1] == run and each[2] == address then return end
  end
  found[#found + 1] = { run, address }
  redis.call('HSET', q.key.watchers, id, cmsgpack.pack(found))
  q.any_watchers = true
end

local function news(q, id, run, state)
  return cjson.encode({ queue = q.name, id = H.long(id), run = run, state = state })
end

function H.unwatch(q, id, first, last, address)
  if not H.any(q, 'watchers') then return {} end
  local text = redis.call('HGET', q.key.watchers, id)
  if not text then return {} end
  local kept, gone = {}, {}
  for _, each in ipairs(cmsgpack.unpack(text)) do
    local ours = each[1] >= first and each[1] <= last and (not address or each[2] == address)
    if ours then gone[#gone + 1] = each else kept[#kept + 1] = each end
  end
  if #kept > 0 then redis.call('HSET', q.key.watchers, id, cmsgpack.pack(kept)) else redis.call('HDEL', q.key.watchers, id) end
  return gone
end

-- Whoever waits for this run, or for one that it absorbed, hears that it is over.
function H.tell_watchers(q, job, state)
  local found = H.unwatch(q, job.id, job.run, math.max(job.run, job.more.absorbed_to or job.run))
  if #found > 0 and job.more.expires_at and job.more.expires_at < q.now + KEPT_FOR_WATCHERS_MS then
    job.more.expires_at = q.now + KEPT_FOR_WATCHERS_MS -- whoever waited must find the result
    redis.call('ZADD', q.key[job.state], job.more.expires_at, job.rid)
    H.store(q, job)
  end
  for _, each in ipairs(found) do H.ring(each[2], news(q, job.id, each[1], state)) end
end

function H.tell_progress(q, job)
  if not H.any(q, 'watchers') then return end
  local text = redis.call('HGET', q.key.watchers, job.id)
  for _, each in ipairs(text and cmsgpack.unpack(text) or {}) do
    if each[1] >= job.run then H.ring(each[2], news(q, job.id, each[1], 'active')) end
  end
end

-- Aborts: handlers that must be told to stop, by session, run and attempt.

function H.abort(q, job, reason)
  local entry = cmsgpack.pack({ job.more.session, job.id, job.run, job.more.attempts, reason })
  redis.call('HSET', q.key.aborts, job.run .. '/' .. job.more.attempts, entry)
  q.any_aborts = true
  H.ring_session(q, job.more.session)
end

function H.forget_abort(q, run, attempt)
  if H.any(q, 'aborts') then redis.call('HDEL', q.key.aborts, run .. '/' .. attempt) end
end

function H.aborts(q, session)
  local found = {}
  if not H.any(q, 'aborts') then return found end
  for _, text in ipairs(redis.call('HVALS', q.key.aborts)) do
    local entry = cmsgpack.unpack(text)
    if entry[1] == session then
      for index = 2, 5 do found[#found + 1] = entry[index] end
    end
  end
  return found
end

-- Policy: what was declared of a task, under what the job's caller set.

local DEFAULT_RETRY = {
  failures = 3, stalls = 3, timeouts = 3, releases = 100, initial = 2, multiplier = 2, maximum = 300, jitter = 0,
}

function H.policy(q, job)
  q.policies = q.policies or {}
  local name = job.task or ''
  local declared = q.policies[name]
  if declared == nil then
    local text = redis.call('HGET', q.key.policies, name)
    declared = text and H.json(text) or {}
    q.policies[name] = declared
  end
  if not job.more.overrides then return declared, H.given(declared.retry) or DEFAULT_RETRY, H.given(declared.timeout_ms) end
  local fine, own = pcall(H.json, job.more.overrides)
  if not fine then own = {} end -- an unreadable override must not keep the job from being put back
  local retry = H.given(own.retry) or H.given(declared.retry) or DEFAULT_RETRY
  return declared, retry, H.given(own.timeout_ms) or H.given(declared.timeout_ms)
end

function H.is_final(retry, cause, counted)
  local limit = H.given(retry[COUNTER[cause]])
  return limit ~= nil and counted >= limit
end

-- The cause whose limit a waiting run has already reached, after the limit was lowered.
function H.spent(retry, more)
  for _, cause in ipairs(CAUSES) do
    if H.is_final(retry, cause, more[COUNTER[cause]] or 0) then return cause end
  end
end

function H.backoff(q, retry, nth)
  local seconds = math.min(retry.initial * retry.multiplier ^ math.min(nth - 1, 1023), retry.maximum)
  local jitter = retry.jitter or 0
  if jitter > 0 then
    if not q.seeded then math.randomseed(q.seed or 0) end
    q.seeded = true
    seconds = seconds * (1 + jitter * (2 * math.random() - 1))
  end
  return math.floor(seconds * 1000 + 0.5)
end

-- Buckets of tokens.

function H.capacity(rate)
  return H.given(rate.burst) or math.max(1, rate.count)
end

function H.per_ms(rate)
  return rate.count / ((H.given(rate.per) or 1) * 1000)
end

function H.refilled(rate, tokens, at, now)
  if not tokens then return H.capacity(rate) end
  return math.min(H.capacity(rate), tokens + math.max(0, now - at) * H.per_ms(rate))
end

function H.token_at(rate, tokens, now)
  if tokens >= 1 then return now end
  return now + math.ceil((1 - tokens) / H.per_ms(rate))
end

-- First answers, for calls that are repeated because their reply was lost.

function H.once(q, request, work)
  if request == '' then return work() end
  local known = redis.call('HGET', q.key.requests, request)
  if known then return cmsgpack.unpack(known) end
  local reply = work()
  redis.call('HSET', q.key.requests, request, cmsgpack.pack(reply))
  redis.call('RPUSH', q.key.answered, q.now .. ':' .. request)
  return reply
end

-- Steps across queues: written down here, applied once there.

function H.send(q, target, message)
  local number = redis.call('HINCRBY', q.key.queue, 'sent', 1)
  redis.call('ZADD', q.key.outbox, number, cmsgpack.pack({ number, target, message }))
  q.posted = true
end

function H.in_parts(list, each)
  for first = 1, #list, AT_ONCE do
    each(unpack(list, first, math.min(first + AT_ONCE - 1, #list)))
  end
end
