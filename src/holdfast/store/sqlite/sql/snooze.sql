-- snooze: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count the snooze (at its limit: fail), set run_at, suspect it no longer, merge the successor, append event

-- :put_back
UPDATE holdfast_job SET state = 'scheduled', exit = 'snooze', run_at_ms = :run_at, ready_at_ms = :run_at,
    snoozes = :snoozes, company = NULL WHERE run = :run;
