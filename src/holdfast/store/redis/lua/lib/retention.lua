-- How long runs are kept: when one that ends lets go of its id, and when it is gone.

function H.result_ttl(q)
  return H.setting(q, 'result_ttl_ms') or RESULT_TTL_MS
end

function H.retention(q, name, default)
  local kept = H.setting(q, 'retention')
  return kept and tonumber(H.given(kept[name])) or default
end

function H.kept_ms(q, state)
  if state == 'cancelled' then return 0 end
  local kept = H.setting(q, 'retention')
  if state == 'failed' and kept and kept.failed == cjson.null then return FOR_EVER_MS end
  return math.floor(H.retention(q, state, state == 'failed' and FAILED_KEPT_MS / 1000 or 0) * 1000 + 0.5)
end

-- When a run that ends now lets go of its id, and when it is gone.
function H.times_of(q, state, ttl)
  ttl = ttl or H.result_ttl(q)
  return q.now + ttl, q.now + math.max(ttl, H.kept_ms(q, state))
end

-- The run ends now; a later job of a chain goes with the chain.
function H.end_times(q, job, ttl)
  local more, own = job.more, ttl or job.more.ttl
  local free_at, expires_at = H.times_of(q, job.state, own)
  more.finished_at, more.free_at, more.expires_at = q.now, free_at, nil
  if own or not H.goes_with_chain(more.chain) then more.expires_at = math.max(expires_at, more.dedup_until or 0) end
end
