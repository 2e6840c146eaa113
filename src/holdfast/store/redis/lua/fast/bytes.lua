-- What the fast paths share: texts that are the same for many jobs, made once.
--
-- Fast paths are for plain jobs, which most are: no key, no options but an envelope, started for the first time. Their
-- records and events are cut and joined as bytes (`H.bytes` in lib/record.lua, the order of EVENT in lib/log.lua), because taking
-- records apart is most of what a job costs. None of them is a transition: each says which slow path it equals, and what is not
-- plain goes there. tests/store/redis/test_redis_fast.py compares them.

local bytes = H.bytes
local MOST_TEXTS = 200

-- What never changes of a session: its name as records and events have it, and how its events end, by task.
local sessions, session_count = {}, 0

function bytes.session(id)
  local made = sessions[id]
  if not made then
    if session_count >= MOST_TEXTS then sessions, session_count = {}, 0 end
    local named = struct.pack('>I2', #id) .. id
    made = { named = named, held = bytes.held(named), holder = H.holder_text(id), tails = {}, tasks = 0 }
    sessions[id], session_count = made, session_count + 1
  end
  return made
end

-- How an event of a task and a session ends.
function bytes.tail(session, task)
  local tail = session.tails[task]
  if not tail then
    if session.tasks >= MOST_TEXTS then session.tails, session.tasks = {}, 0 end
    tail = struct.pack('>I2', #task) .. task .. session.named
    session.tails[task], session.tasks = tail, session.tasks + 1
  end
  return tail
end

function bytes.now(q)
  local text = q.now_text
  if not text then
    text = struct.pack('>I7', q.now)
    q.now_text = text
  end
  return text
end

-- Envelopes. A rest that is an envelope alone, and that of an event, is the same map of one in MessagePack.

local KEY, ENVELOPE = '\163key', '\168envelope' -- names in a map
local KEY_ALONE, ENVELOPE_ALONE = '\129' .. KEY, '\129' .. ENVELOPE -- the map, and the name in it
local SHORT = ENVELOPE_ALONE .. '\217' -- and a text of 32 to 255 bytes: its size in one of them, and the text
local TRACE = '^{"headers":{"traceparent":"%x%x%-%x+%-%x+%-%x%x"}}' -- as most envelopes are
local ONE_HEADER = '^{"headers":{"[%w_-]*":"[%w_-]*"}}$'

-- What `H.rest` makes of an envelope alone, and how an event with it ends.
function bytes.enveloped(envelope)
  local size = #envelope
  if size > 31 and size < 240 then -- as cmsgpack would, in less time
    local text = SHORT .. string.char(size) .. envelope
    return '\0\0\0' .. string.char(size + 12) .. text, text
  end
  local text = ENVELOPE_ALONE .. cmsgpack.pack(envelope)
  return struct.pack('>I4', #text) .. text, text
end

-- Where a text of MessagePack begins, and its size; nil when there is none here.
local function packed_text(raw, at)
  local kind = string.byte(raw, at) or 0
  if kind >= 160 and kind < 192 then return at + 1, kind - 160 end
  if kind == 217 then return at + 2, string.byte(raw, at + 1) end
  if kind == 218 and #raw >= at + 2 then return at + 3, (struct.unpack('>I2', raw, at + 1)) end
  if kind == 219 and #raw >= at + 4 then return at + 5, (struct.unpack('>I4', raw, at + 1)) end
end

-- How a rest begins up to its envelope, and its size: the last that had a text of 32 to 255 bytes. Those of traces are equal.
local known_head, known_size = '', 0

-- Where the rest ends that begins here, and where its envelope begins; nil when it is not an envelope alone.
local function envelope_at(raw, at)
  local head = string.sub(raw, at, at + 15)
  if head == known_head and at + known_size <= #raw + 1 then return at + known_size, at + 16 end
  local name_at = at + 4
  local text_at = name_at + #ENVELOPE_ALONE
  if string.sub(raw, name_at, text_at - 1) ~= ENVELOPE_ALONE then return nil end
  local after = name_at + struct.unpack('>I4', raw, at)
  local from, size = packed_text(raw, text_at)
  if not size or from + size ~= after or after > #raw + 1 then return nil end
  if from == at + 16 then known_head, known_size = head, after - at end
  return after, from
end

-- Whether an envelope can be read. The last that could is known: many jobs have the same.
local sound = false

local function is_sound(envelope)
  if envelope == sound then return true end
  if not string.find(envelope, ONE_HEADER) and not pcall(cjson.decode, envelope) then return false end
  sound = envelope
  return true
end

-- Keys. A rest has nothing but a key, or a key and then an envelope (`H.packed` in lib/record.lua); an event of the job has the
-- same map.

-- A key as the rest of an event.
function bytes.keyed(key)
  if #key < 32 then return KEY_ALONE .. string.char(160 + #key) .. key end -- as cmsgpack would, in less time
  return KEY_ALONE .. cmsgpack.pack(key)
end

-- Where the rest ends that begins here, its key, and where its envelope begins; nil when there is more in it.
local function rest_at(raw, at)
  if string.sub(raw, at + 5, at + 8) ~= KEY then
    local after, from = envelope_at(raw, at)
    return after, nil, from
  end
  local after, entries = at + 4 + struct.unpack('>I4', raw, at), string.byte(raw, at + 4)
  local from, size = packed_text(raw, at + 9)
  if not size or after > #raw + 1 then return nil end
  local next_at = from + size
  local key = string.sub(raw, from, next_at - 1)
  if entries == 129 and next_at == after then return after, key end
  if entries ~= 130 or string.sub(raw, next_at, next_at + 8) ~= ENVELOPE then return nil end
  from, size = packed_text(raw, next_at + 9)
  if size and from + size == after then return after, key, from end
end

-- Where the rest ends that begins here, and its key; nil when there is more in it, or an envelope that cannot be read.
local function readable_rest(raw, at)
  local after, key, from = rest_at(raw, at)
  if not after or not from then return after, key end
  local _, last = string.find(raw, TRACE, from)
  if last == after - 1 or is_sound(string.sub(raw, from, after - 1)) then return after, key end
end

bytes.is_sound, bytes.rest_at, bytes.readable_rest = is_sound, rest_at, readable_rest
