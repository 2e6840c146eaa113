-- delete: blocked | scheduled | waiting | active | completed | failed | cancelled -> nothing
-- guard: somebody asks for it
-- effects: remove the run and everything that points to it, signal its handler, append event

-- serve delete: now, id, actor
--   reply: a word
H.serve('delete', function(call, keys)
  local q = H.acting(keys[1], call)
  local job = H.answering(q, call.id)
  if not job then return 'missing' end
  if job.more.chain then H.delete_later(q, job) else H.delete_chain(q, job) end
  return 'ok'
end)
