-- Job records: a short head, what of the rest there is (by the flags), then id, task, payload, checkpoint, result.
-- The head has the size of the payload, so that a record that was cut off is known for one.
-- MessagePack is slow here, so that what every job has or gets is packed by hand. `record/job.py` reads the same.

local HEAD, HEAD_SIZE = '>c1BI2BI6I4', 15 -- state, flags, size of id and task, enqueued_at, size of payload
local RUN_AT, PRIORITY, LIFE, RESULT, REST, LONG_TASK = 1, 2, 4, 8, 16, 32 -- the last: the size of its name follows
local CHAIN = 64 -- a later job of a chain: which, and its position there
local LIFE_FORMAT = '>I4I7I7I7I7Bc0I2c0' -- attempts, claimed_at, finished_at, free_at, expires_at, exit, session
local TEXTS = {
  'key', 'envelope', 'overrides', 'error', 'signature', 'progress', 'dedup', 'policy', 'chain_state', 'last_session',
  'last_exit',
}
local NUMBERS = {
  'failures', 'stalls', 'timeouts', 'releases', 'snoozes', 'spared', 'ready_at', 'requeued_as', 'absorbed_to', 'ttl',
  'dedup_until', 'checkpoint_size', 'progressed_at', 'ended_at', 'waits', 'open', 'company',
}
local TYPES = { cancel = 'boolean', past = 'boolean', last = 'table' } -- of what a rest may have
for index = 1, #TEXTS do TYPES[TEXTS[index]] = 'string' end
for index = 1, #NUMBERS do TYPES[NUMBERS[index]] = 'number' end
local LIFE_SIZE = 32 -- of its numbers, before the size of exit
local OF_LIFE = {
  attempts = true, claimed_at = true, finished_at = true, free_at = true, expires_at = true, exit = true, session = true,
  chain = true,
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

local function decode_rest(text, more)
  for name, value in pairs(cmsgpack.unpack(text)) do
    if TYPES[name] and type(value) ~= TYPES[name] then error('its ' .. name .. ' is no ' .. TYPES[name]) end
    more[name] = value
  end
end

function H.decode(rid, raw)
  local state, flags, id_size, task_size, enqueued_at, payload_size = struct.unpack(HEAD, raw)
  local at, run_at, priority, more = HEAD_SIZE + 1, enqueued_at, 0, nil
  if flags % 2 >= RUN_AT then run_at, at = struct.unpack('>I7', raw, at) end
  if flags % 4 >= PRIORITY then
    priority, at = struct.unpack('>I2', raw, at)
    priority = priority - HIGHEST_PRIORITY
  end
  local chain
  if flags >= CHAIN then chain, at = struct.unpack('>I2c0', raw, at) end
  if flags % 8 >= LIFE then more, at = decode_life(raw, at) end
  more = more or {}
  more.chain = chain
  local result_size
  if flags % 16 >= RESULT then result_size, at = struct.unpack('>I4', raw, at) end
  if flags % 32 >= REST then
    local size
    size, at = struct.unpack('>I4', raw, at)
    decode_rest(string.sub(raw, at, at + size - 1), more)
    at = at + size
  end
  if flags % CHAIN >= LONG_TASK then task_size, at = struct.unpack('>I2', raw, at) end
  local job = {
    rid = rid, run = H.run_of(rid), id = string.sub(raw, at, at + id_size - 1), state = STATE[state],
    task = task_size > 0 and string.sub(raw, at + id_size, at + id_size + task_size - 1) or nil,
    priority = priority, enqueued_at = enqueued_at, run_at = run_at, more = more, signed = more.signature,
  }
  at = at + id_size + task_size
  local size = #raw - at + 1 - (more.checkpoint_size or 0) - (result_size or 0)
  if size ~= payload_size then error('cut off, or longer than it should be') end
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
  return flags + REST, life .. H.rest(rest)
end

-- A map in MessagePack. With a key and an envelope in it, and nothing else, it is always the same bytes: those come often.
function H.packed(map)
  local key, envelope = map.key, map.envelope
  if not key or not envelope or next(map, next(map, next(map))) ~= nil then return cmsgpack.pack(map) end
  return '\130\163key' .. cmsgpack.pack(key) .. '\168envelope' .. cmsgpack.pack(envelope)
end

-- What of a record has no place of its own.
function H.rest(rest)
  local text = H.packed(rest)
  return struct.pack('>I4', #text) .. text
end

function H.encode(job)
  local more, flags, middle = job.more, 0, ''
  more.checkpoint_size = job.checkpoint and #job.checkpoint or nil
  if next(more) ~= nil then flags, middle = encode_more(more, job.result) end
  if more.chain then
    flags = flags + CHAIN
    middle = struct.pack('>I2', #more.chain) .. more.chain .. middle
  end
  if job.priority ~= 0 then
    flags = flags + PRIORITY
    middle = struct.pack('>I2', job.priority + HIGHEST_PRIORITY) .. middle
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
  local head = struct.pack(
    HEAD, LETTER[job.state], flags, #job.id, math.min(#task, 255), job.enqueued_at, #job.payload
  )
  return head .. middle .. job.id .. task .. job.payload .. (job.checkpoint or '') .. (job.result or '')
end

-- Where the id of a record begins, and how long its id and its task are: lists look at these first.
function H.names_at(raw)
  local _, flags, id_size, task_size = struct.unpack(HEAD, raw)
  local at = HEAD_SIZE + 1 + (flags % 2) * 7 + (flags % 4 >= PRIORITY and 2 or 0)
  if flags >= CHAIN then at = at + 2 + struct.unpack('>I2', raw, at) end
  if flags % 8 >= LIFE then
    at = at + LIFE_SIZE + 1 + string.byte(raw, at + LIFE_SIZE)
    at = at + 2 + struct.unpack('>I2', raw, at)
  end
  if flags % 16 >= RESULT then at = at + 4 end
  if flags % 32 >= REST then at = at + 4 + struct.unpack('>I4', raw, at) end
  if flags % CHAIN >= LONG_TASK then task_size, at = struct.unpack('>I2', raw, at) end
  return at, id_size, task_size
end

-- When the job of a record was taken in; nil for what is too short to be one.
function H.enqueued_at(raw)
  if #raw >= HEAD_SIZE then return (struct.unpack('>I6', raw, 6)) end
end

-- Where the id of a record begins that has no life, result or rest; nil for others.
function H.id_at(raw)
  local _, flags, size = struct.unpack(HEAD, raw)
  if flags % CHAIN >= LIFE then return nil end
  local at = HEAD_SIZE + 1 + (flags % 2) * 7 + (flags % 4 >= PRIORITY and 2 or 0)
  return at, size
end

-- The same layout for the fast paths (`fast/`), which cut and join records without taking them apart.

local bytes = {}
H.bytes = bytes
-- (No library of Lua is there while this is loaded, so that these are written out.)
local WAITING, ACTIVE = BYTE.waiting, BYTE.active
local NORMAL = '\3\232' -- a priority of 0: HIGHEST_PRIORITY as a number of two bytes
local FIRST = '\0\0\0\1' -- a first attempt
bytes.NORMAL, bytes.FIRST = NORMAL, FIRST
local NOT_OVER = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- finished, free, expires, and the size of no exit

-- A session in the life of a run that it holds.
function bytes.held(named)
  return NOT_OVER .. named
end

-- The flags of a waiting job that never ran and has nothing unusual but an envelope; nil for others, and for what is too
-- short to tell.
function bytes.waiting(raw)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= WAITING or not flags or flags % REST >= LIFE or flags % CHAIN >= LONG_TASK or flags > 127
    or #raw < HEAD_SIZE + (flags % 4 > 0 and 9 or 0) + (flags >= CHAIN and 11 or 0) then
    return nil
  end
  return flags
end

-- The flags of an active job with nothing unusual but an envelope: the first of its chain, or alone, or else a later one.
function bytes.active(raw, later)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= ACTIVE or not flags or (flags >= CHAIN) ~= later then return nil end
  local own = flags % REST
  return own >= LIFE and own < 2 * LIFE and flags % CHAIN < LONG_TASK and flags < 128 and flags or nil
end

-- Where the head of a record ends; and run_at and priority, as an event has them.
function bytes.head(raw, flags)
  local at, run_at = HEAD_SIZE + 1, nil
  if flags % 2 == 1 then
    run_at, at = string.sub(raw, at, at + 6), at + 7
  else
    run_at = '\0' .. string.sub(raw, 6, 11)
  end
  local priority = NORMAL
  if flags % 4 >= 2 then priority, at = string.sub(raw, at, at + 1), at + 2 end
  if flags >= CHAIN then at = at + 2 + struct.unpack('>I2', raw, at) end
  return at, run_at .. priority
end

-- Whether there is a rest.
function bytes.has_rest(flags)
  return flags % LONG_TASK >= REST
end

-- The id and the task, which begin here; nil where the record does not end with its payload.
function bytes.names(raw, at)
  local id_size, task_size, _, payload_size = struct.unpack('>I2BI6I4', raw, 3)
  if at + id_size + task_size + payload_size ~= #raw + 1 then return nil end
  return string.sub(raw, at, at + id_size - 1), string.sub(raw, at + id_size, at + id_size + task_size - 1)
end

-- The chain of a later job, whose head ends here.
function bytes.chain(raw, flags, at)
  return string.sub(raw, HEAD_SIZE + 3 + (flags % 2 == 1 and 7 or 0) + (flags % 4 >= 2 and 2 or 0), at - 1)
end

-- The queue in which the chain of a later job began.
function bytes.home(raw)
  local flags = string.byte(raw, 2)
  if not flags or flags < CHAIN then return nil end
  return string.match(raw, '^%Z+', HEAD_SIZE + 7 + (flags % 2 == 1 and 7 or 0) + (flags % 4 >= 2 and 2 or 0))
end

-- Attempt and claimed_at of a run that this session holds, and where its id begins; nil when another holds it.
function bytes.life(raw, at, held)
  local after = at + 11 + #held
  if string.sub(raw, at + 11, after - 1) ~= held then return nil end
  return string.sub(raw, at, at + 3), string.sub(raw, at + 4, at + 10), after
end

local HEAD_OF_NEW = { [false] = LETTER.waiting .. '\0', [true] = LETTER.waiting .. '\16' } -- with a rest
local HEAD_OF_LATER = { [false] = LETTER.waiting .. '\64', [true] = LETTER.waiting .. '\80' } -- with a chain

-- How the record of a job begins that waits from now on, up to its id; `rest` is what `H.rest` made.
function bytes.new_head(enqueued_at, id_size, task_size, payload_size, rest)
  return HEAD_OF_NEW[rest ~= nil] .. struct.pack('>I2B', id_size, task_size) .. enqueued_at .. struct.pack('>I4', payload_size)
    .. (rest or '')
end

-- The same for a later job of a chain.
function bytes.new_in_chain(enqueued_at, id, task, payload, rest, chain)
  return HEAD_OF_LATER[rest ~= nil] .. struct.pack('>I2B', #id, #task) .. enqueued_at
    .. struct.pack('>I4I2', #payload, #chain) .. chain .. (rest or '') .. id .. task .. payload
end

-- A waiting job that is active now; its head ended here.
function bytes.started(raw, flags, at, now, held)
  return LETTER.active .. string.char(flags + LIFE) .. string.sub(raw, 3, at - 1) .. FIRST .. now .. held
    .. string.sub(raw, at)
end

-- The same for one that just came, of which this is the head.
function bytes.new_started(head, now, held)
  return bytes.started(head, string.byte(head, 2), HEAD_SIZE + 1, now, held)
end

-- How the life of a run ends that completes.
function bytes.ends(finished_at, free_at, expires_at, named)
  return struct.pack('>I7I7I7Bc0', finished_at, free_at, expires_at, 8, 'complete') .. named
end

-- An active job that is completed now, with a result or, when its chain continues, none.
function bytes.completed(raw, flags, at, after, ends, result)
  if not result then return LETTER.completed .. string.sub(raw, 2, at + 10) .. ends .. string.sub(raw, after) end
  return LETTER.completed .. string.char(flags + RESULT) .. string.sub(raw, 3, at + 10) .. ends
    .. struct.pack('>I4', #result) .. string.sub(raw, after) .. result
end

-- The rest of a job that has only waited so far ('' for none), and where it ends; nil when there is more to the job.
function bytes.rest(raw)
  local state, flags = string.byte(raw, 1, 2)
  if state ~= WAITING or (flags ~= 0 and flags ~= REST) then return nil end
  local at = HEAD_SIZE + 1
  if flags == 0 then return '', at end
  local text = string.sub(raw, at, at + 3 + struct.unpack('>I4', raw, at))
  return text, at + #text
end

-- The same job with another rest.
function bytes.with_rest(raw, at, rest)
  return HEAD_OF_NEW[rest ~= nil] .. string.sub(raw, 3, HEAD_SIZE) .. (rest or '') .. string.sub(raw, at)
end
