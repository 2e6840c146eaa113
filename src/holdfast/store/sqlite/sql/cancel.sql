-- cancel: blocked | scheduled | waiting -> cancelled
-- guard: the run has not started; an active one is refused or signalled
-- effects: free the id, drop the successor, append event, tell waiters

-- :finish
UPDATE holdfast_job
SET state = 'cancelled', exit = :exit, held = 0, finished_at_ms = :now, free_at_ms = :now,
    expires_at_ms = max(:now + coalesce(result_ttl_ms, :queue_ttl), coalesce(dedup_until_ms, 0))
WHERE run = :run;

-- :signal
UPDATE holdfast_job SET cancel = 1 WHERE run = :run;

-- :tell
INSERT OR REPLACE INTO holdfast_abort (session, run, attempt, queue, id, reason)
VALUES (:session, :run, :attempt, :queue, :id, :reason);
