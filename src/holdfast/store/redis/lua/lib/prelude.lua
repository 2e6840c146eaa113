-- What every part works with: the queue at hand, its settings, and entry points. Its locals are seen by all parts; those
-- of the others are their own. The bounds of core/bound.py, `NAME` (the ends of all keys), `KIND` (their types),
-- `LETTER`, `STATE` and `FINISHED` (the states) and `VERSION` come from Python, before it; after it, `ENTRY`, `TAKES` and
-- `REPLY`, which read arguments and write replies by name. See connection/library.py.

local H = {}
local ENTRY, TAKES, REPLY = {}, {}, {}
local AT_ONCE = 1000 -- arguments of one command; Lua's stack has room for 8,000
local MOST_HANDED_OVER = 64
local COUNTER = { failure = 'failures', timeout = 'timeouts', stall = 'stalls', release = 'releases' }
local LIMIT = { -- the option of `Retry` that limits each cause
  failure = 'failures', timeout = 'timeouts', stall = 'stalls', release = 'releases', snooze = 'snoozes', attempts = 'attempts',
}

local CAUSES = { 'failure', 'timeout', 'stall', 'release', 'snooze' }
local NOTHING = {}

-- An entry point: `work` gets the arguments by name, the keys, all arguments, and where those begin that have no name.
function H.serve(name, work)
  local entry = ENTRY[name]
  redis.register_function({
    function_name = PREFIX .. name, flags = entry.flags,
    callback = function(keys, args) return work(entry.read(args), keys, args, entry.behind) end,
  })
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
  if not value or value ~= value or math.abs(value) > LARGEST_NUMBER then return default end
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

-- The same, for a call by which somebody acts.
function H.acting(key, call)
  local q = H.queue(key, call.now)
  q.actor = call.actor
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

local KINDS = {
  concurrency = 'number', key_concurrency = 'number', result_ttl_ms = 'number', rate = 'table', key_rate = 'table',
  retention = 'table', paused = 'boolean', key_limits = 'table',
}

-- A setting of a kind that it cannot be does not count.
function H.setting(q, name)
  local value = H.given(q.settings[name])
  if value ~= nil and KINDS[name] and type(value) ~= KINDS[name] then return nil end
  if (name == 'rate' or name == 'key_rate') and type(value) == 'table' and type(value.count) ~= 'number' then return nil end
  return value
end

-- Whether there is anything of this name, asked once for each call; the code that adds the first says so in `has`.
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

function H.optional(text)
  if text ~= '' then return text end
end

function H.in_parts(list, each)
  for first = 1, #list, AT_ONCE do
    each(unpack(list, first, math.min(first + AT_ONCE - 1, #list)))
  end
end
