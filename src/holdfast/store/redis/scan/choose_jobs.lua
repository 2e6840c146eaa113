-- choose_jobs: records that may be wanted, without the payloads and results that are not. A read-only script, no part of the library.
-- keys:  the records of a queue
-- args:  what is wanted, as JSON (`pruning.py`); a cursor and how many, or '' and the runs
-- reply: the next cursor, and run and record by turns
-- The reader looks at every condition again. What this script cannot take apart, it lets through.

local wanted = cjson.decode(ARGV[1])
local HEAD, HEAD_SIZE = '>c1BI2BI6I4', 15 -- as in `lua/lib/record.lua`
local RUN_AT, PRIORITY, LIFE, RESULT, REST, LONG_TASK, CHAIN = 1, 2, 4, 8, 16, 32, 64
local WORTH_CUTTING = 128 -- bytes; fewer travel faster than they are cut

local function within(bounds, value)
  return not bounds or (value >= bounds[1] and value <= bounds[2])
end

local function skip(raw, at, size)
  return at + size + struct.unpack(size == 2 and '>I2' or '>I4', raw, at)
end

local function after_life(raw, at)
  at = at + 32
  at = at + 1 + string.byte(raw, at)
  return skip(raw, at, 2)
end

local function without(raw, payload_at, payload_size, result_field, result_size)
  local last = #raw
  if payload_at + payload_size + result_size - 1 > last then return raw end
  if not wanted.result and result_size >= WORTH_CUTTING then
    raw = string.sub(raw, 1, result_field - 1) .. '\0\0\0\0' .. string.sub(raw, result_field + 4, last - result_size)
  end
  if not wanted.payload and payload_size >= WORTH_CUTTING then
    raw = string.sub(raw, 1, HEAD_SIZE - 4) .. '\0\0\0\0' .. string.sub(raw, HEAD_SIZE + 1, payload_at - 1)
      .. string.sub(raw, payload_at + payload_size)
  end
  return raw
end

local function chosen(rid, raw)
  if #rid == 6 and not within(wanted.run, (struct.unpack('>I6', rid))) then return nil end
  local state, flags, id_size, task_size, enqueued_at, payload_size = struct.unpack(HEAD, raw)
  if wanted.state and not wanted.state[state] then return nil end
  if not within(wanted.enqueued_at_ms, enqueued_at) then return nil end
  local at = HEAD_SIZE + 1
  if flags % 2 >= RUN_AT then at = at + 7 end
  if flags % 4 >= PRIORITY then at = at + 2 end
  if flags >= CHAIN then at = skip(raw, at, 2) end
  if flags % 8 >= LIFE then
    if wanted.finished_at_ms and not within(wanted.finished_at_ms, (struct.unpack('>I7', raw, at + 11))) then return nil end
    at = after_life(raw, at)
  elseif wanted.finished_at_ms then
    return nil
  end
  local result_field, result_size = at, 0
  if flags % 16 >= RESULT then result_size, at = struct.unpack('>I4', raw, at) end
  if flags % 32 >= REST then at = skip(raw, at, 4) end
  if flags % CHAIN >= LONG_TASK then task_size, at = struct.unpack('>I2', raw, at) end
  local id = string.sub(raw, at, at + id_size - 1)
  if wanted.prefix and (string.byte(id, 1) or 2) > 1 and string.sub(id, 1, #wanted.prefix) ~= wanted.prefix then return nil end
  return without(raw, at + id_size + task_size, payload_size, result_field, result_size)
end

local reply = {}
local function add(rid, raw)
  if not raw then return end
  local known, kept = pcall(chosen, rid, raw)
  if not known then kept = raw end
  if kept then
    reply[#reply + 1] = rid
    reply[#reply + 1] = kept
  end
end

if ARGV[2] ~= '' then
  local page = redis.call('HSCAN', KEYS[1], ARGV[2], 'COUNT', ARGV[3])
  for index = 1, #page[2], 2 do add(page[2][index], page[2][index + 1]) end
  return { page[1], reply }
end
local raws = redis.call('HMGET', KEYS[1], unpack(ARGV, 3))
for index = 3, #ARGV do add(ARGV[index], raws[index - 2]) end
return { '0', reply }
