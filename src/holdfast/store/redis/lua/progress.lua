-- progress: active -> active
-- guard: the caller holds the lease
-- effects: store progress and checkpoint, append at most one event a second

H.serve('progress', function(keys, args)
  local arg = H.reader(args)
  local now, session, run, attempt, id = H.now(arg()), arg(), tonumber(arg()), tonumber(arg()), arg()
  local progress, checkpoint = H.optional(arg()), arg()
  local q = H.queue(keys[1], now)
  local job = H.load(q, H.rid(run))
  local word = H.word(job, session, 'progress', run, attempt, id)
  if word ~= 'ok' then return word end
  local holder = H.session(q, session)
  if not holder or holder.dead then return 'stale' end
  local more = job.more
  if progress then more.progress = progress end
  if checkpoint ~= '' then job.checkpoint = string.sub(checkpoint, 2) end
  local told = more.progressed_at
  local due = not told or told <= now - 1000 or told > now
  if due then more.progressed_at = now end
  H.store(q, job)
  if due then
    local report = progress and cjson.decode(progress) or {}
    H.append(q, 'progress', job, {
      worker = more.session, progress = H.given(report.fraction), message = H.given(report.message),
    })
    H.tell_progress(q, job)
  end
  return 'ok'
end)
