-- delete: blocked | scheduled | waiting | active | completed | failed | cancelled -> nothing
-- guard: somebody asks for it
-- effects: remove the run and everything that points to it, signal its handler, append event

H.serve('delete', function(keys, args)
  local arg = H.reader(args)
  local now, id = H.now(arg()), arg()
  local q = H.queue(keys[1], now)
  local job = H.answering(q, id)
  if not job then return 'missing' end
  H.append(q, 'delete', job, { gone = true })
  local active = job.state == 'active'
  H.remove(q, job)
  if active then
    H.drop_successor(q, job, false)
    H.abort(q, job, 'deleted')
    H.wake(q, 1)
  end
  H.recheck(q, job.more.key)
  job.more.expires_at = nil
  H.tell_watchers(q, job, 'cancelled')
  return 'ok'
end)
