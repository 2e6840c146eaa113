-- cancel: blocked | scheduled | waiting -> cancelled
-- guard: the run has not started; an active one is refused or signalled
-- effects: free the id, end the chain, drop the successor, append event, tell waiters

-- :finish
UPDATE holdfast_job
SET state = 'cancelled', exit = :exit, held = 0, finished_at_ms = :now, free_at_ms = :now,
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND @WITH_CHAIN - 1 OR result_ttl_ms IS NOT NULL
        THEN max(:now + coalesce(result_ttl_ms, :queue_ttl), coalesce(dedup_until_ms, 0)) END
WHERE run = :run;

-- :insert_cancelled
INSERT INTO holdfast_job (run, queue, id, state, held, task, priority, key, run_at_ms, ready_at_ms, enqueued_at_ms,
    finished_at_ms, free_at_ms, expires_at_ms, exit, result_ttl_ms, overrides, envelope, payload)
SELECT run, queue, id, 'cancelled', 0, task, priority, key, run_at_ms, run_at_ms, enqueued_at_ms,
    :now, :now, :now + coalesce(result_ttl_ms, :queue_ttl), 'cancel', result_ttl_ms, overrides, envelope, payload
FROM holdfast_successor WHERE queue = :queue AND id = :id;

-- :signal
UPDATE holdfast_job SET cancel = 1 WHERE run = :run;

-- :abort
INSERT OR REPLACE INTO holdfast_abort (session, run, attempt, queue, id, reason)
VALUES (:session, :run, :attempt, :queue, :id, :reason);
