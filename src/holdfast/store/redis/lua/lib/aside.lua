-- What cannot be read is set aside: it is kept as it was, a worker is told of it once, and `doctor` shows it.

local MOST_SEARCHED = 200 -- times AT_ONCE ids, for that of a record that cannot be read
local MOST_BYTES_KEPT = 65536 -- of such a record

-- The id of a run whose record cannot be read: as the record has it, if that much of it is left, or else by a search.
local function id_of(q, rid, raw)
  local fine, id = pcall(function()
    local at, size = H.id_at(raw)
    return at and string.sub(raw, at, at + size - 1)
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

-- What it failed with is not known any more.
local function forget_signature(q, rid)
  local cursor = '0'
  for _ = 1, MOST_SEARCHED do
    local found = redis.call('ZSCAN', q.key.signatures, cursor, 'COUNT', AT_ONCE)
    for index = 1, #found[2], 2 do
      if string.sub(found[2][index], -6) == rid then redis.call('ZREM', q.key.signatures, found[2][index]) end
    end
    cursor = found[1]
    if cursor == '0' then return end
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
    forget_signature(q, rid)
    redis.call('HSET', q.key.corrupt, rid, string.sub(raw, 1, MOST_BYTES_KEPT))
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

-- A worker reports, once, what could not be read and was set aside; and `doctor` shows it.
function H.note(q, kind, id, run, detail)
  local text = cjson.encode({ kind = kind, id = H.printable(H.long(id)), run = run, detail = detail })
  redis.call('RPUSH', q.key.untold, text)
  redis.call('LTRIM', q.key.untold, -MOST_SET_ASIDE, -1)
  redis.call('LPUSH', q.key.aside, text)
  redis.call('LTRIM', q.key.aside, 0, MOST_SET_ASIDE - 1)
end

-- JSON takes no bytes that are no text.
function H.printable(text)
  return (string.gsub(text, '[%c\128-\255]', function(byte) return string.format('\\x%02x', string.byte(byte)) end))
end
