-- expire: completed | failed | cancelled -> nothing
-- guard: its retention is over
-- effects: remove the run and everything that points to it, append event

-- :aged
SELECT run FROM (
    SELECT run FROM holdfast_job INDEXED BY holdfast_job_completed
    WHERE queue = :queue AND state = 'completed' AND expires_at_ms <= :now ORDER BY expires_at_ms LIMIT :limit)
UNION ALL
SELECT run FROM (
    SELECT run FROM holdfast_job INDEXED BY holdfast_job_expiry
    WHERE queue = :queue AND state <> 'completed' AND expires_at_ms <= :now ORDER BY expires_at_ms LIMIT :limit)
LIMIT :limit;

-- :crowded
SELECT run FROM holdfast_job
WHERE queue = :queue AND state = 'failed'
    AND run <= (SELECT run FROM holdfast_job WHERE queue = :queue AND state = 'failed'
                ORDER BY run DESC LIMIT 1 OFFSET :most)
    AND (held = 0 OR free_at_ms <= :now)
ORDER BY run LIMIT :limit;

-- :states
SELECT queue, state, count(*) FROM holdfast_job WHERE run IN (SELECT value FROM json_each(:runs)) GROUP BY queue, state;

-- :remove
DELETE FROM holdfast_job WHERE run IN (SELECT value FROM json_each(:runs));

-- :events
DELETE FROM holdfast_event WHERE seq IN (
    SELECT seq FROM holdfast_event
    WHERE seq <= (SELECT max(seq) FROM holdfast_event) - :most
        AND seq < max(:unread, (SELECT max(seq) FROM holdfast_event) - :cap + 1)
    ORDER BY seq LIMIT :limit);

-- :requests
DELETE FROM holdfast_request WHERE id IN (
    SELECT id FROM holdfast_request WHERE at_ms <= :before ORDER BY at_ms LIMIT :limit);

