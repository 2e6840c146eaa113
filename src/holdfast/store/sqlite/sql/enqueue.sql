-- enqueue: nothing -> waiting | scheduled | blocked
-- guard: no run holds the id
-- effects: number the run, hold the id, append event, wake one worker

-- The values are those of `transition.row.COLUMNS`, in that order.
-- :insert
INSERT INTO holdfast_job (run, queue, id, state, task, priority, key, run_at_ms, enqueued_at_ms,
    result_ttl_ms, dedup_key, dedup_until_ms, overrides, envelope, payload, chain, position, ready_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- :any_taken
SELECT EXISTS (SELECT 1 FROM holdfast_job
               WHERE queue = :queue AND id IN (SELECT value FROM json_each(:ids)) AND held = 1);

-- :of_id
SELECT * FROM holdfast_job WHERE queue = :queue AND id = :id AND held = 1;

-- :free_id
UPDATE holdfast_job SET held = 0 WHERE run = :run;

-- :deduplicated_successors
SELECT queue, id, run, enqueued_at_ms FROM holdfast_successor
WHERE queue = :queue AND task IS :task AND dedup_key = :key;

-- :deduplicated
SELECT * FROM holdfast_job WHERE queue = :queue AND task IS :task AND dedup_key = :key ORDER BY run DESC LIMIT :most;
