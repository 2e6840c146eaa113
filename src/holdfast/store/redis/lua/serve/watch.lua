-- Callers that wait for the end of a run.

-- serve watch: now, id, run, address
--   reply: a word
H.serve('watch', function(call, keys)
  local q, id, run = H.queue(keys[1], call.now), call.id, call.run
  local job = H.find(q, id, run)
  if not job or FINISHED[H.outcome(job)] then
    local new = H.successor(q, id)
    if not new or new.run ~= run then return 'over' end
  end
  H.watch(q, id, run, call.address)
  return 'ok'
end)

-- serve unwatch: now, id, run, address
--   reply: a word
H.serve('unwatch', function(call, keys)
  H.unwatch(H.queue(keys[1], call.now), call.id, call.run, call.run, call.address)
  return 'ok'
end)
