-- What every part works with: the queue at hand, its settings, and arguments. Its locals are seen by all parts;
-- those of the others (record, hold, log, tell, policy, outbox, plain, lane, ...) are their own.
-- `NAME` (the ends of all keys) and `VERSION` come from Python; see keys.py and library.py.

local H = {}
local MOST_PROMOTED = 200
local MOST_WOKEN = 64
local MOST_GIVEN = 16
local MOST_TOLD = 8192 -- bytes of a result that go along with the word that it is there
local CROWD = 2 ^ 31 -- more than any suspect's company
local MOST_SEARCHED = 200 -- times AT_ONCE ids, for that of a record that cannot be read
local MOST_KEPT = 65536 -- bytes of such a record
local AT_ONCE = 1000 -- arguments of one command; Lua's stack has room for 8,000
local WITH_CHAIN = 1000 -- as in core/chain.py
local KEPT_FOR_WATCHERS_MS = 60000
local DEFAULT_LEASE_MS = 15000
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

-- Functions: those that only look may be asked of a replica; those that make room, or that a worker needs to do so, work
-- though memory is full. What is new (enqueue, requeue, schedules) does not.

local LOOKS, DRAINS = { 'no-writes' }, { 'allow-oom' }
local FLAGS = {
  get = LOOKS, members = LOOKS, blockers = LOOKS, fetch = LOOKS, records = LOOKS, glance = LOOKS, pending = LOOKS, sessions = LOOKS, version = LOOKS,
  schedules = LOOKS, due = LOOKS,
  turn = DRAINS, extend = DRAINS, leave = DRAINS, held = DRAINS, reap = DRAINS, expire = DRAINS, delete = DRAINS, delete_chain = DRAINS, receive = DRAINS,
  cancel = DRAINS, outbox = DRAINS, hear = DRAINS, register = DRAINS, steer = DRAINS, progress = DRAINS, promote = DRAINS, watch = DRAINS, unwatch = DRAINS,
  complete_chain = DRAINS, set_ttl = DRAINS, aside = DRAINS,
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

-- What was packed, where it is a table; nothing where it is garbage.
function H.unpacked(text)
  if not text then return nil end
  local fine, value = pcall(cmsgpack.unpack, text)
  return fine and type(value) == 'table' and value or nil
end

-- The same for JSON.
function H.readable(text)
  local fine, value = pcall(H.json, text)
  return fine and type(value) == 'table' and value or nil
end

-- A number that is stored as text.
function H.number(text, default)
  local value = text and tonumber(text)
  if not value or value ~= value or math.abs(value) > 2 ^ 53 then return default end
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
  local q = { base = base, key = keys_of(base), now = now, has = {} }
  local found = redis.call('HMGET', q.key.queue, 'name', 'epoch', 'settings', 'shift')
  q.name, q.epoch, q.settings_text, q.shift = found[1], found[2], found[3] or '{}', H.number(found[4], 0)
  q.settings = H.readable(q.settings_text)
  if not q.settings then q.settings, q.settings_text = NOTHING, '{}' end
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

-- As in core/limit.py: how long dead letters stay, in seconds, and where only somebody's decision counts.
local FAILED_KEPT, FOR_EVER_MS = 7776000, 1e14

local KINDS = {
  concurrency = 'number', key_concurrency = 'number', result_ttl_ms = 'number', rate = 'table', key_rate = 'table',
  retention = 'table', paused = 'boolean',
}

-- A setting of a kind that it cannot be does not count.
function H.setting(q, name)
  local value = H.given(q.settings[name])
  if value ~= nil and KINDS[name] and type(value) ~= KINDS[name] then return nil end
  if type(value) == 'table' and name ~= 'retention' and type(value.count) ~= 'number' then return nil end
  return value
end

function H.result_ttl(q)
  return H.setting(q, 'result_ttl_ms') or 3600000
end

function H.retention(q, name, default)
  local kept = H.setting(q, 'retention')
  return kept and tonumber(H.given(kept[name])) or default
end

function H.kept_ms(q, state)
  if state == 'cancelled' then return 0 end
  local kept = H.setting(q, 'retention')
  if state == 'failed' and kept and kept.failed == cjson.null then return FOR_EVER_MS end
  return math.floor(H.retention(q, state, state == 'failed' and FAILED_KEPT or 0) * 1000 + 0.5)
end

-- Whether there is anything of this name, asked once for each call; whoever adds the first says so in `has`.
function H.any(q, name)
  local known = q.has[name]
  if known == nil then
    known = redis.call('EXISTS', q.key[name]) == 1
    q.has[name] = known
  end
  return known
end

-- One question instead of seven: most queues have none of what is rare, and one whose workers are idle has nothing at all.
function H.look_around(q)
  local key, has = q.key, q.has
  local rare = { key.lanes, key.suspects, key.successors, key.aborts, key.dependants }
  if redis.call('EXISTS', key.waiting, key.scheduled, unpack(rare)) == 0 then
    has.waiting, has.scheduled = false, false
  elseif redis.call('EXISTS', unpack(rare)) > 0 then
    return
  end
  has.lanes, has.suspects, has.successors, has.aborts, has.dependants = false, false, false, false, false
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

function H.in_parts(list, each)
  for first = 1, #list, AT_ONCE do
    each(unpack(list, first, math.min(first + AT_ONCE - 1, #list)))
  end
end
