-- release: active -> waiting | scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count release, stall or none (at limit: fail; of a stall, only alone), keep its place, make the stalled suspect, merge the successor, append event

-- :put_back
UPDATE holdfast_job
SET state = :state, exit = 'release', run_at_ms = :run_at, ready_at_ms = :ready_at, releases = :releases,
    stalls = :stalls, spared = :spared, error = coalesce(:error, error), signature = coalesce(:signature, signature), company = :company
WHERE run = :run;
