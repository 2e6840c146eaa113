-- Named readers of the log.

local function forget(q)
  local flat = redis.call('HGETALL', q.key.readers)
  for index = 1, #flat, 2 do
    local at = string.match(flat[index + 1], ' (%d+)$')
    if tonumber(at) <= q.now - READER_FORGOTTEN_MS then redis.call('HDEL', q.key.readers, flat[index]) end
  end
end

-- serve keep_for_reader: now, queue, reader, sequence
--   reply: a word
H.serve('keep_for_reader', function(call, keys)
  local q = H.opened(keys[1], call.now, call.queue)
  forget(q)
  if call.sequence then
    redis.call('HSET', q.key.readers, call.reader, call.sequence .. ' ' .. string.format('%.0f', call.now))
  else
    redis.call('HDEL', q.key.readers, call.reader)
  end
end)
