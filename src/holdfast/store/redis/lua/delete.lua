-- delete: blocked | scheduled | waiting | active | completed | failed | cancelled -> nothing
-- guard: somebody asks for it
-- effects: remove the run and everything that points to it, signal its handler, append event

H.serve('delete', function(keys, args)
  local arg = H.reader(args)
  local now, id = H.now(arg()), arg()
  local q = H.queue(keys[1], now)
  local job = H.answering(q, id)
  if not job then return 'missing' end
  if job.more.chain then H.delete_later(q, job) else H.delete_chain(q, job) end
  return 'ok'
end)
