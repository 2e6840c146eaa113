-- retry: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count the failure or timeout (at its limit: fail), back off, suspect it no longer, merge the successor, append event

-- :put_back
UPDATE holdfast_job
SET state = 'scheduled', exit = 'retry', run_at_ms = :run_at, ready_at_ms = :run_at, error = :error, signature = :signature,
    failures = :failures, timeouts = :timeouts, company = NULL
WHERE run = :run;
