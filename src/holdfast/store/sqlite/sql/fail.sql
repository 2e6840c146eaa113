-- fail: blocked | scheduled | waiting | active -> failed
-- guard: the caller holds the lease, or a limit is reached at claim, reap or release, or a blocker failed, or its record cannot be read
-- effects: drop lease, store error, enqueue the fail handler, end the chain, start the successor, append event, tell waiters

-- :finish
UPDATE holdfast_job
SET state = 'failed', exit = :exit, error = :error, signature = :signature, finished_at_ms = :now,
    failures = :failures, stalls = :stalls, timeouts = :timeouts, releases = :releases, snoozes = :snoozes,
    free_at_ms = :now + coalesce(:ttl, result_ttl_ms, :queue_ttl),
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND @WITH_CHAIN - 1 OR coalesce(:ttl, result_ttl_ms) IS NOT NULL
        THEN max(:now + max(:kept, coalesce(:ttl, result_ttl_ms, :queue_ttl)), coalesce(dedup_until_ms, 0)) END
WHERE run = :run;
