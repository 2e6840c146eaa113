-- Named readers of the log: what they have still to read is kept for them, up to a cap.

local HELD = 10 -- times the history; as in contract.py
local FORGOTTEN_MS = 604800000

-- The first event that some reader has still to read; nil when nobody is known to read.
local function unread(q)
  local lowest
  for _, text in ipairs(redis.call('HVALS', q.key.readers)) do
    local seq, at = string.match(text, '^(%d+) (%d+)$')
    if tonumber(at) > q.now - FORGOTTEN_MS then lowest = math.min(lowest or tonumber(seq), tonumber(seq)) end
  end
  return lowest
end

-- The log keeps so many events, and what readers lack; at most `limit` go at once. True when there are more to go.
function H.trim_log(q, history, limit)
  local length = redis.call('XLEN', q.key.events)
  if length <= history then return false end
  local first = redis.call('XRANGE', q.key.events, '-', '+', 'COUNT', 1)[1][1]
  local epoch, seq = string.match(first, '^(%d+)-(%d+)$')
  seq = tonumber(seq)
  local until_seq = seq + length - history
  local wanted = unread(q)
  if wanted then until_seq = math.min(until_seq, math.max(wanted, seq + length - HELD * history)) end
  if until_seq <= seq then return false end
  local step = math.min(until_seq, seq + limit)
  redis.call('XTRIM', q.key.events, 'MINID', '=', epoch .. '-' .. string.format('%.0f', step))
  return step < until_seq
end

-- Far more events than the history are not kept, though no worker is there to sweep: looked at now and then.
function H.bound_log(q, history, count)
  if count < 100 and q.now % 16 > 0 then return end
  local length = redis.call('XLEN', q.key.events)
  if length <= 2 * history then return end
  local most = redis.call('HLEN', q.key.readers) > 0 and HELD * history or history
  if length > most then redis.call('XTRIM', q.key.events, 'MAXLEN', '~', most) end
end

local function forget(q)
  local flat = redis.call('HGETALL', q.key.readers)
  for index = 1, #flat, 2 do
    local at = string.match(flat[index + 1], ' (%d+)$')
    if tonumber(at) <= q.now - FORGOTTEN_MS then redis.call('HDEL', q.key.readers, flat[index]) end
  end
end

-- reader, the first event it has still to read ('' lets go)
H.serve('hold', function(keys, args)
  local arg = H.reader(args)
  local now, name, reader, seq = H.now(arg()), arg(), arg(), H.optional(arg())
  local q = H.opened(keys[1], now, name)
  forget(q)
  if seq then
    redis.call('HSET', q.key.readers, reader, seq .. ' ' .. string.format('%.0f', now))
  else
    redis.call('HDEL', q.key.readers, reader)
  end
end)
