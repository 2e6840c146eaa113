-- Settings and policies. Python decides, on what it read; here it is written only if nothing was changed meanwhile (the
-- revision), and everything that follows from it happens in the same step.

-- serve operate: now, queue, revision, wake, recheck, key, action, count
--   then, over and over, write_arguments: where, field, value
--   reply: a word
H.serve('operate', function(call, keys, args, at)
  local q = H.opened(keys[1], call.now, call.queue)
  if (redis.call('HGET', q.key.queue, 'revision') or '0') ~= call.revision then return 'changed' end
  local write = TAKES.write_arguments
  for _ = 1, call.count do
    local its = write.read(args, at)
    if its.value == '' then
      redis.call('HDEL', q.key[its.where], its.field)
    else
      redis.call('HSET', q.key[its.where], its.field, its.value)
    end
    at = at + write.size
  end
  redis.call('HINCRBY', q.key.queue, 'revision', 1)
  q = H.queue(keys[1], call.now)
  if call.action then H.append_action(q, cjson.decode(call.action)) end
  if call.recheck == 'all' then H.recheck_all(q) elseif call.recheck == 'one' then H.recheck(q, string.sub(call.key, 2)) end
  if call.wake ~= 0 then H.wake(q, call.wake > 0 and call.wake or ALL_WORKERS) end
  return 'ok'
end)
