-- The active: run -> session, and the key behind a mark; and how many of each key.

function H.holder_text(session, key)
  return struct.pack('>I2', #session) .. session .. (key and '=' .. key or '')
end

function H.holder(text)
  if #text < 2 then return '', nil end
  local size = struct.unpack('>I2', text)
  local key
  if #text > size + 2 then key = string.sub(text, size + 4) end
  return string.sub(text, 3, size + 2), key
end

local function counted_anew(q, key)
  local count = 0
  for _, text in ipairs(redis.call('HVALS', q.key.active)) do
    local _, its = H.holder(text)
    if its == key then count = count + 1 end
  end
  redis.call('HSET', q.key.running, key, count)
  H.note(q, 'count of a key', key, 0, 'it was no number')
  return count
end

function H.count_running(q, key, by)
  if not key then return end
  local count = redis.pcall('HINCRBY', q.key.running, key, by)
  if type(count) == 'table' then count = counted_anew(q, key) end -- what stood there was no number
  if count <= 0 then redis.call('HDEL', q.key.running, key) end
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
