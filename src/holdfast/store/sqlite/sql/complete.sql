-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, start the successor, append event, tell waiters

-- :finish
UPDATE holdfast_job
SET state = 'completed', exit = 'complete', result = :result, finished_at_ms = :now, error = NULL,
    free_at_ms = :now + coalesce(:ttl, result_ttl_ms, :queue_ttl),
    expires_at_ms = max(:now + max(coalesce(:ttl, result_ttl_ms, :queue_ttl), :kept), coalesce(dedup_until_ms, 0))
WHERE run = :run AND attempts = :attempt AND session = :session AND state = 'active';
