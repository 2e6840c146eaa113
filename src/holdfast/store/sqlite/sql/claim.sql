-- claim: waiting -> active
-- guard: the queue's limits allow it and the worker has room
-- effects: count an attempt, give the lease, append event

-- :keyless
UPDATE holdfast_job
SET state = 'active', attempts = attempts + 1, session = :session, claimed_at_ms = :now, exit = NULL
WHERE run IN (SELECT run FROM holdfast_job
              WHERE queue = :queue AND state = 'waiting' AND key IS NULL
              ORDER BY priority DESC, run_at_ms, run LIMIT :room)
RETURNING run, attempts, id, task, priority, key, run_at_ms, enqueued_at_ms, failures, stalls, timeouts, releases,
    overrides, headers, error, checkpoint, payload;

-- :keyed
UPDATE holdfast_job
SET state = 'active', attempts = attempts + 1, session = :session, claimed_at_ms = :now, exit = NULL
WHERE run = (SELECT run FROM holdfast_job
             WHERE queue = :queue AND state = 'waiting' AND key = :key
             ORDER BY priority DESC, run_at_ms, run LIMIT 1)
RETURNING run, attempts, id, task, priority, key, run_at_ms, enqueued_at_ms, failures, stalls, timeouts, releases,
    overrides, headers, error, checkpoint, payload;

-- :undo
UPDATE holdfast_job SET state = 'waiting', attempts = attempts - 1 WHERE run = :run;

-- :active
SELECT count(*) FROM holdfast_job WHERE queue = :queue AND state = 'active';

-- :next_scheduled
SELECT min(run_at_ms) FROM holdfast_job WHERE queue = :queue AND state = 'scheduled';

-- :keyless_waiting
SELECT EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND key IS NULL);
