-- Records that could not be read, set aside.

-- :note
INSERT INTO holdfast_corrupt (at_ms, kind, queue, id, run, detail) VALUES (:now, :kind, :queue, :id, :run, :detail);

-- :keep_newest
DELETE FROM holdfast_corrupt WHERE number <= (SELECT max(number) FROM holdfast_corrupt) - :most;

-- :report
UPDATE holdfast_corrupt SET told = 1 WHERE told = 0 RETURNING kind, queue, id, run, detail;

-- :all
SELECT kind, queue, id, run, detail FROM holdfast_corrupt ORDER BY number DESC;

-- :stateless
SELECT run FROM holdfast_job
WHERE state <> 'waiting' AND state <> 'active' AND state <> 'completed' AND state <> 'scheduled'
    AND state <> 'failed' AND state <> 'blocked' AND state <> 'cancelled' LIMIT :limit;
