-- Job records: a short head, what of the rest there is (by the flags), then id, task, payload, checkpoint, result.
-- The head has the size of the payload, so that a record that was cut off is known for one.
-- MessagePack is slow here, so that what every job has or gets is packed by hand. `record.py` reads the same.

local HEAD, HEAD_SIZE = '>c1BI2BI6I4', 15
local RUN_AT, PRIORITY, LIFE, RESULT, REST, LONG_TASK = 1, 2, 4, 8, 16, 32 -- the last: the size of its name follows
local CHAIN = 64 -- a later job of a chain: which, and its position there
local LIFE_FORMAT = '>I4I7I7I7I7Bc0I2c0'
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

function H.decode(rid, raw)
  local state, flags, id_size, task_size, enqueued_at, payload_size = struct.unpack(HEAD, raw)
  local at, run_at, priority, more = HEAD_SIZE + 1, enqueued_at, 0, nil
  if flags % 2 >= RUN_AT then run_at, at = struct.unpack('>I7', raw, at) end
  if flags % 4 >= PRIORITY then
    priority, at = struct.unpack('>I2', raw, at)
    priority = priority - 1000
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
    for name, value in pairs(cmsgpack.unpack(string.sub(raw, at, at + size - 1))) do more[name] = value end
    at = at + size
  end
  if flags % CHAIN >= LONG_TASK then task_size, at = struct.unpack('>I2', raw, at) end
  local job = {
    rid = rid, run = H.run_of(rid), id = string.sub(raw, at, at + id_size - 1), state = WORD[state],
    task = task_size > 0 and string.sub(raw, at + id_size, at + id_size + task_size - 1) or nil,
    priority = priority, enqueued_at = enqueued_at, run_at = run_at, more = more,
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

-- What of a record has no place of its own.
function H.rest(rest)
  local text = cmsgpack.pack(rest)
  return struct.pack('>I4', #text) .. text
end

-- Whether that is how long its result is kept, and nothing else. Few texts say so, over and over.

local only_ttl, only_ttl_count = {}, 0

function H.is_only_ttl(text)
  local known = only_ttl[text]
  if known == nil then
    local rest = cmsgpack.unpack(string.sub(text, 5))
    known = rest.ttl ~= nil and next(rest, next(rest)) == nil
    if only_ttl_count >= 100 then only_ttl, only_ttl_count = {}, 0 end
    only_ttl[text], only_ttl_count = known, only_ttl_count + 1
  end
  return known
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
  local head = struct.pack(
    HEAD, LETTER[job.state], flags, #job.id, math.min(#task, 255), job.enqueued_at, #job.payload
  )
  return head .. middle .. job.id .. task .. job.payload .. (job.checkpoint or '') .. (job.result or '')
end

-- Return the record of a run: nil when it is gone. One that is nothing we ever wrote is set aside as if it were.
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

-- The id of a run whose record cannot be read: as the record has it, if that much of it is left, or else by a search.
local function id_of(q, rid, raw)
  local fine, id = pcall(function()
    local _, flags, id_size, _, _ = struct.unpack(HEAD, raw)
    return (flags % CHAIN == 0 or flags % CHAIN < LIFE) and string.sub(raw, HEAD_SIZE + 1 + (flags % 2) * 7
      + (flags % 4 >= PRIORITY and 2 or 0), HEAD_SIZE + id_size + (flags % 2) * 7 + (flags % 4 >= PRIORITY and 2 or 0))
  end)
  if fine and id and redis.call('HGET', q.key.ids, id) == rid then return id end
  local cursor = '0'
  for _ = 1, MOST_SEARCHED do
    local found = redis.call('HSCAN', q.key.ids, cursor, 'COUNT', AT_ONCE)
    for index = 1, #found[2], 2 do
      if found[2][index + 1] == rid then return found[2][index] end
    end
    cursor = found[1]
    if cursor == '0' then break end
  end
end

-- fail: a job whose record cannot be read is a dead letter; the record as it was is kept aside. Without a record there is
-- nothing to keep: a pointer to it was all that was left.
function H.set_aside(q, rid, raw)
  local why = 'its record is gone or cannot be read'
  if raw then
    for _, name in ipairs({ 'scheduled', 'blocked', 'completed', 'failed', 'cancelled', 'letters' }) do
      redis.call('ZREM', q.key[name], rid)
    end
    redis.call('HSET', q.key.corrupt, rid, string.sub(raw, 1, MOST_KEPT))
    redis.call('HDEL', q.key.jobs, rid)
    local key = H.let_go(q, rid)
    local id = id_of(q, rid, raw)
    local job = {
      rid = rid, run = H.run_of(rid), id = id or 'unreadable-' .. H.run_of(rid), state = 'waiting', priority = 0,
      enqueued_at = q.now, run_at = q.now, payload = '', more = { past = not id or nil },
    }
    H.fail(q, job, { error = H.error('corrupt', 'CorruptRecord', why), cause = 'corrupt', exit = 'fail', not_run = true })
    H.recheck(q, key)
  elseif redis.call('HEXISTS', q.key.jobs, rid) == 0 then
    local id = id_of(q, rid, '') or 'unreadable-' .. H.run_of(rid)
    H.append(q, 'fail', {
      rid = rid, run = H.run_of(rid), id = id, state = 'failed', priority = 0, run_at = q.now, more = {},
    }, { cause = 'corrupt', error_type = 'CorruptRecord', message = why })
    H.note(q, 'job', id, H.run_of(rid), why)
  end
end

-- Somebody will be told, once, of what could not be read and was set aside; and `doctor` shows it.
function H.note(q, kind, id, run, detail)
  local text = cjson.encode({ kind = kind, id = H.printable(H.long(id)), run = run, detail = detail })
  redis.call('RPUSH', q.key.untold, text)
  redis.call('LTRIM', q.key.untold, -AT_ONCE, -1)
  redis.call('LPUSH', q.key.aside, text)
  redis.call('LTRIM', q.key.aside, 0, AT_ONCE - 1)
end

-- JSON takes no bytes that are no text.
function H.printable(text)
  return (string.gsub(text, '[%c\128-\255]', function(byte) return string.format('\\x%02x', string.byte(byte)) end))
end

-- Ids of 32 hexadecimal digits are kept as 16 bytes behind a mark; others that begin like one, behind a zero byte.

local hexadecimal = {}

function H.long(id)
  local mark = string.byte(id, 1)
  if mark == 0 then return string.sub(id, 2) end
  if mark ~= 1 then return id end
  if not hexadecimal[0] then
    for byte = 0, 255 do hexadecimal[byte] = string.format('%02x', byte) end
  end
  local bytes = { string.byte(id, 2, -1) }
  for index, byte in ipairs(bytes) do bytes[index] = hexadecimal[byte] end
  return table.concat(bytes)
end

-- Places: waiting jobs, and suspects among them apart, by priority, run_at and run; scheduled ones by run_at and run.

function H.place(job)
  return struct.pack('>I2I7I6', 1000 - job.priority, job.run_at, job.run)
end

function H.lane_of(q, key)
  if key then return q.key.lane .. key end
  return q.key.waiting
end

function H.put(q, job)
  if job.state == 'waiting' and job.more.company then
    redis.call('ZADD', q.key.suspects, 0, H.place(job))
    q.has.suspects = true
  elseif job.state == 'waiting' then
    redis.call('ZADD', H.lane_of(q, job.more.key), 0, H.place(job))
    if not job.more.key then q.has.waiting = true end
  elseif job.state == 'scheduled' then
    redis.call('ZADD', q.key.scheduled, job.run_at, job.rid)
    q.has.scheduled = true
  elseif job.state == 'blocked' then
    redis.call('ZADD', q.key.blocked, job.run, job.rid)
  end
end

function H.take_away(q, job)
  if job.state == 'waiting' then
    redis.call('ZREM', job.more.company and q.key.suspects or H.lane_of(q, job.more.key), H.place(job))
  elseif job.state == 'scheduled' then
    redis.call('ZREM', q.key.scheduled, job.rid)
  elseif job.state == 'blocked' then
    redis.call('ZREM', q.key.blocked, job.rid)
  end
end
