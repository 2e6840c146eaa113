-- Jobs of one state in the order of its index, for lists: the instant and the run of each, below a place.

-- :completed
SELECT expires_at_ms, run FROM holdfast_job INDEXED BY holdfast_job_completed
WHERE queue = :queue AND state = 'completed' AND (expires_at_ms, run) < (:at, :run)
ORDER BY expires_at_ms DESC, run DESC LIMIT :most;

-- Those that go with their chain.
-- :unended
SELECT NULL, run FROM holdfast_job INDEXED BY holdfast_job_completed
WHERE queue = :queue AND state = 'completed' AND expires_at_ms IS NULL AND run < :run ORDER BY run DESC LIMIT :most;

-- :scheduled
SELECT -run_at_ms, -run FROM holdfast_job INDEXED BY holdfast_job_scheduled
WHERE queue = :queue AND state = 'scheduled' AND (run_at_ms, run) > (-:at, -:run)
ORDER BY run_at_ms, run LIMIT :most;

-- Priorities of those that wait without a key; one step of the index for each.
-- :plain_priorities
WITH RECURSIVE found (priority) AS (
    SELECT (SELECT priority FROM holdfast_job INDEXED BY holdfast_job_waiting
        WHERE queue = :queue AND state = 'waiting' AND key IS NULL AND company IS NULL
        ORDER BY priority DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT priority FROM holdfast_job INDEXED BY holdfast_job_waiting
        WHERE queue = :queue AND state = 'waiting' AND key IS NULL AND company IS NULL
            AND priority < found.priority ORDER BY priority DESC LIMIT 1)
    FROM found WHERE found.priority IS NOT NULL)
SELECT priority FROM found WHERE priority IS NOT NULL;

-- :plain
SELECT run_at_ms, run FROM holdfast_job INDEXED BY holdfast_job_waiting
WHERE queue = :queue AND state = 'waiting' AND key IS NULL AND company IS NULL AND priority = :priority
    AND (run_at_ms, run) < (:at, :run)
ORDER BY run_at_ms DESC, run DESC LIMIT :most;

-- :with_key
SELECT run_at_ms, run FROM holdfast_job INDEXED BY holdfast_job_aged
WHERE queue = :queue AND state = 'waiting' AND key IS NOT NULL AND (run_at_ms, run) < (:at, :run)
ORDER BY run_at_ms DESC, run DESC LIMIT :most;

-- Suspects are few: they are put in order.
-- :suspects
SELECT run_at_ms, run FROM holdfast_job INDEXED BY holdfast_job_suspect
WHERE queue = :queue AND state = 'waiting' AND company IS NOT NULL AND key IS NULL AND (run_at_ms, run) < (:at, :run)
ORDER BY run_at_ms DESC, run DESC LIMIT :most;
