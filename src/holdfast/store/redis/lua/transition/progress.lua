-- progress: active -> active
-- guard: the caller holds the lease
-- effects: store progress and checkpoint, append at most one event a second

-- serve progress: now, session, run, attempt, id, progress, checkpoint
--   reply: a word
H.serve('progress', function(call, keys)
  local now, progress = call.now, call.progress
  local q = H.queue(keys[1], now)
  local job = H.load(q, H.rid(call.run))
  local word = H.word(job, call.session, 'progress', call.attempt, call.id)
  if word ~= 'ok' then return word end
  local holder = H.session(q, call.session)
  if not holder or holder.dead then return 'stale' end
  local more = job.more
  if progress then more.progress = progress end
  if call.checkpoint then job.checkpoint = string.sub(call.checkpoint, 2) end
  local logged_at = more.progressed_at
  local due = not logged_at or logged_at <= now - PROGRESS_EVENT_MS or logged_at > now
  if due then more.progressed_at = now end
  H.store(q, job)
  if due then
    local report = progress and cjson.decode(progress) or {}
    H.append(q, 'progress', job, {
      worker = more.session, progress = H.given(report.fraction), message = H.given(report.message),
    })
    H.notify_progress(q, job)
  end
  return 'ok'
end)
