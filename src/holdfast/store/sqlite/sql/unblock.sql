-- unblock: blocked -> waiting | scheduled
-- guard: its last open blocker is done
-- effects: raise run_at to now, append event, wake one worker

-- :unblock
UPDATE holdfast_job SET state = :state, run_at_ms = :run_at, ready_at_ms = :run_at WHERE run = :run;

-- :register
INSERT INTO holdfast_blocker (run, place, queue, id, blocker, state, last_queue, last_task, error, result)
VALUES (:run, :place, :queue, :id, :blocker, :state, :last_queue, :last_task, :error, :result);

-- :open
SELECT EXISTS (SELECT 1 FROM holdfast_blocker WHERE state IS NULL);

-- :report
UPDATE holdfast_blocker
SET state = coalesce(j.chain_state, j.state), result = j.result, error = j.error,
    last_queue = coalesce(t.queue, j.queue), last_task = CASE WHEN t.run IS NULL THEN j.task ELSE t.task END
FROM holdfast_job j LEFT JOIN holdfast_job t ON t.run = j.tail
WHERE holdfast_blocker.blocker IN (SELECT value FROM json_each(:runs)) AND holdfast_blocker.state IS NULL
    AND j.run = holdfast_blocker.blocker
RETURNING run, state, queue, id;

-- :report_gone
UPDATE holdfast_blocker SET state = 'cancelled'
WHERE blocker IN (SELECT value FROM json_each(:runs)) AND state IS NULL
RETURNING run, state, queue, id;

-- :count_down
UPDATE holdfast_job SET blockers = blockers - :done WHERE run = :run AND state = 'blocked' RETURNING blockers;

-- :dependants
SELECT DISTINCT b.run AS waiting, j.queue, j.id, j.run, j.chain
FROM holdfast_blocker b JOIN holdfast_job j ON j.run = b.run WHERE b.blocker = :run AND b.state IS NULL;

-- :waiting_for
SELECT j.queue, j.id, j.run FROM holdfast_job j
WHERE j.run IN (SELECT run FROM holdfast_blocker WHERE blocker = :run AND state IS NULL ORDER BY run LIMIT :limit)
ORDER BY j.run;

-- :count_waiting
SELECT count(DISTINCT run) FROM (SELECT run FROM holdfast_blocker WHERE blocker = :run AND state IS NULL LIMIT :most);

-- :abandon
UPDATE holdfast_blocker SET state = 'abandoned' WHERE run = :run AND state IS NULL;

-- :remove
DELETE FROM holdfast_blocker WHERE run IN (SELECT value FROM json_each(:runs));

-- :all
SELECT * FROM holdfast_blocker WHERE run = :run ORDER BY place;

-- :move
UPDATE holdfast_blocker SET run = :to WHERE run = :run;

-- :register_again
UPDATE holdfast_blocker
SET blocker = :blocker, state = :state, last_queue = :last_queue, last_task = :last_task, error = :error, result = :result
WHERE run = :run AND place = :place;

-- :waits
UPDATE holdfast_job SET blockers = :open, on_blocker_failed = :policy, state = :state WHERE run = :run;

-- :repoint
UPDATE holdfast_blocker SET blocker = :run WHERE blocker = :absorbed AND state IS NULL;
