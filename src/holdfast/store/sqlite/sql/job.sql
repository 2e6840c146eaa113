-- Looking at jobs.

-- :get
SELECT * FROM holdfast_job WHERE run = :run;

-- Whether a successor waits for the end of an id's run, and whether any run waits for a blocker.
-- :followed
SELECT EXISTS (SELECT 1 FROM holdfast_successor WHERE queue = :queue AND id = :id),
    EXISTS (SELECT 1 FROM holdfast_blocker WHERE state IS NULL);

-- :of_id
SELECT j.*, EXISTS (SELECT 1 FROM holdfast_successor s WHERE s.queue = j.queue AND s.id = j.id) AS successor
FROM holdfast_job j WHERE j.queue = :queue AND j.id = :id AND j.held = 1
    AND (j.expires_at_ms IS NULL OR j.expires_at_ms > :now);

-- :latest
SELECT *, 0 AS successor FROM holdfast_job WHERE queue = :queue AND id = :id AND held = 0
    AND (expires_at_ms IS NULL OR expires_at_ms > :now)
ORDER BY run DESC LIMIT 1;

-- :run
SELECT j.*, EXISTS (SELECT 1 FROM holdfast_successor s WHERE s.queue = j.queue AND s.id = j.id AND (j.state = 'active' OR j.chain_state = 'open'))
    AS successor
FROM holdfast_job j
WHERE j.run = :run OR j.run IN (
    SELECT a.run FROM holdfast_job a WHERE a.queue = :queue AND a.id = :id AND a.held = 1
        AND a.run <= :run AND a.absorbed_to >= :run
    UNION
    SELECT b.run FROM holdfast_job b WHERE b.queue = :queue AND b.id = :id AND b.held = 0
        AND b.run <= :run AND b.absorbed_to >= :run)
ORDER BY j.run = :run DESC LIMIT 1;

-- Those of some runs that match, newest first.
-- :list_of
SELECT j.*, EXISTS (SELECT 1 FROM holdfast_successor s WHERE s.queue = j.queue AND s.id = j.id AND (j.state = 'active' OR j.chain_state = 'open'))
    AS successor
FROM holdfast_job j
WHERE j.run IN (SELECT value FROM json_each(:runs))
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:states IS NULL OR j.state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR j.task = :task)
    AND (:key IS NULL OR j.key = :key)
    AND (:ids IS NULL OR j.id IN (SELECT value FROM json_each(:ids)))
    AND (:prefix IS NULL OR substr(j.id, 1, :size) = :prefix)
    AND (:signature IS NULL OR j.signature = :signature)
    AND (:after IS NULL OR j.enqueued_at_ms >= :after)
    AND (:until IS NULL OR j.enqueued_at_ms < :until)
    AND (:started_after IS NULL OR j.claimed_at_ms >= :started_after)
    AND (:started_before IS NULL OR j.claimed_at_ms < :started_before)
    AND (:finished_after IS NULL OR j.finished_at_ms >= :finished_after)
    AND (:finished_before IS NULL OR j.finished_at_ms < :finished_before)
    AND (:chain IS NULL OR j.chain = :chain OR j.run = :chain)
    AND (j.expires_at_ms IS NULL OR j.expires_at_ms > :now)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(
        CASE WHEN json_valid(CAST(j.envelope AS TEXT)) THEN CAST(j.envelope AS TEXT) ELSE '{}' END, '$.tags')
        WHERE value = :tag))
    AND (:requeued OR j.requeued_as IS NULL)
ORDER BY +j.run DESC LIMIT :limit;

-- :count_of
SELECT count(*) FROM holdfast_job j
WHERE j.run IN (SELECT value FROM json_each(:runs))
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:states IS NULL OR j.state IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR j.task = :task)
    AND (:key IS NULL OR j.key = :key)
    AND (:ids IS NULL OR j.id IN (SELECT value FROM json_each(:ids)))
    AND (:prefix IS NULL OR substr(j.id, 1, :size) = :prefix)
    AND (:signature IS NULL OR j.signature = :signature)
    AND (:after IS NULL OR j.enqueued_at_ms >= :after)
    AND (:until IS NULL OR j.enqueued_at_ms < :until)
    AND (:started_after IS NULL OR j.claimed_at_ms >= :started_after)
    AND (:started_before IS NULL OR j.claimed_at_ms < :started_before)
    AND (:finished_after IS NULL OR j.finished_at_ms >= :finished_after)
    AND (:finished_before IS NULL OR j.finished_at_ms < :finished_before)
    AND (:chain IS NULL OR j.chain = :chain OR j.run = :chain)
    AND (j.expires_at_ms IS NULL OR j.expires_at_ms > :now)
    AND (:tag IS NULL OR EXISTS (SELECT 1 FROM json_each(
        CASE WHEN json_valid(CAST(j.envelope AS TEXT)) THEN CAST(j.envelope AS TEXT) ELSE '{}' END, '$.tags')
        WHERE value = :tag))
    AND (:requeued OR j.requeued_as IS NULL);

-- What follows gives runs that may match, each from one index. The first three are in the order of runs.
-- :runs
SELECT run FROM holdfast_job WHERE run < :before ORDER BY run DESC LIMIT :most;

-- :runs_of_signature
SELECT run FROM holdfast_job WHERE signature = :signature AND run < :before ORDER BY run DESC LIMIT :most;

-- :runs_failed
SELECT run FROM holdfast_job WHERE queue = :queue AND state = 'failed' AND run < :before ORDER BY run DESC LIMIT :most;

-- :runs_blocked
SELECT run FROM holdfast_job INDEXED BY holdfast_job_rare
WHERE queue = :queue AND state = 'blocked' AND (state = 'blocked' OR state = 'cancelled') AND run < :before
ORDER BY run DESC LIMIT :most;

-- :runs_cancelled
SELECT run FROM holdfast_job INDEXED BY holdfast_job_rare
WHERE queue = :queue AND state = 'cancelled' AND (state = 'blocked' OR state = 'cancelled') AND run < :before
ORDER BY run DESC LIMIT :most;

-- :runs_waiting
SELECT run FROM holdfast_job INDEXED BY holdfast_job_waiting WHERE queue = :queue AND state = 'waiting' LIMIT :most;

-- :runs_scheduled
SELECT run FROM holdfast_job INDEXED BY holdfast_job_scheduled WHERE queue = :queue AND state = 'scheduled' LIMIT :most;

-- :runs_active
SELECT run FROM holdfast_job INDEXED BY holdfast_job_active WHERE queue = :queue AND state = 'active' LIMIT :most;

-- :runs_completed
SELECT run FROM holdfast_job INDEXED BY holdfast_job_completed WHERE queue = :queue AND state = 'completed' LIMIT :most;

-- :runs_of_queue
SELECT run FROM (SELECT run FROM holdfast_job INDEXED BY holdfast_job_id WHERE queue = :queue AND held = 1 LIMIT :most)
UNION ALL
SELECT run FROM (SELECT run FROM holdfast_job INDEXED BY holdfast_job_past WHERE queue = :queue AND held = 0 LIMIT :most);

-- :runs_of_prefix
SELECT run FROM (SELECT run FROM holdfast_job INDEXED BY holdfast_job_id
    WHERE queue = :queue AND id >= :prefix AND id < :behind AND held = 1 LIMIT :most)
UNION ALL
SELECT run FROM (SELECT run FROM holdfast_job INDEXED BY holdfast_job_past
    WHERE queue = :queue AND id >= :prefix AND id < :behind AND held = 0 LIMIT :most);

-- :runs_of_chain
SELECT run FROM holdfast_job WHERE chain = :chain UNION SELECT run FROM holdfast_job WHERE run = :chain;

-- :runs_of_ids
SELECT run FROM holdfast_job WHERE held = 1 AND id IN (SELECT value FROM json_each(:ids))
    AND queue IN (SELECT name FROM holdfast_queue WHERE :queue IS NULL OR name = :queue)
UNION ALL
SELECT run FROM holdfast_job WHERE held = 0 AND id IN (SELECT value FROM json_each(:ids))
    AND queue IN (SELECT name FROM holdfast_queue WHERE :queue IS NULL OR name = :queue);

-- :runs_of_holders
SELECT run FROM holdfast_job WHERE state = 'active' AND session IN (SELECT value FROM json_each(:holders));

-- :set_ttl
UPDATE holdfast_job
SET result_ttl_ms = :ttl,
    free_at_ms = CASE WHEN finished_at_ms IS NULL OR chain_state = 'open' THEN NULL ELSE :now + :ttl END,
    expires_at_ms = CASE
        WHEN finished_at_ms IS NOT NULL AND chain_state IS NOT 'open' THEN max(:now + :ttl, coalesce(ended_at_ms, finished_at_ms) + :kept, coalesce(dedup_until_ms, 0)) END
WHERE run = :run;

-- The plus signs keep SQLite from the index by queue, which knows nothing of runs.
-- :keep_unfinished
UPDATE holdfast_job SET result_ttl_ms = :ttl
WHERE run BETWEEN :first AND :last AND +queue = :queue AND +held = 1
    AND (finished_at_ms IS NULL OR chain_state = 'open');

-- :keep_finished
UPDATE holdfast_job
SET result_ttl_ms = :ttl, free_at_ms = :free_at,
    expires_at_ms = max(
        :free_at, coalesce(dedup_until_ms, 0),
        coalesce(ended_at_ms, finished_at_ms) + CASE coalesce(chain_state, state) WHEN 'failed' THEN :failed WHEN 'completed' THEN :completed ELSE 0 END)
WHERE run BETWEEN :first AND :last AND +queue = :queue AND +held = 1 AND finished_at_ms IS NOT NULL
    AND chain_state IS NOT 'open';

-- :events
SELECT * FROM holdfast_event WHERE seq > :after ORDER BY seq LIMIT :limit;

-- :events_of_queue
SELECT * FROM holdfast_event WHERE seq > :after AND queue = :queue ORDER BY seq LIMIT :limit;

-- :events_of_job
SELECT * FROM holdfast_event WHERE seq > :after AND queue = :queue AND id = :id ORDER BY seq LIMIT :limit;

-- :first_event
SELECT min(seq) FROM holdfast_event;

-- :last_event
SELECT max(seq) FROM holdfast_event;

-- :newest
SELECT seq FROM sqlite_sequence WHERE name = 'holdfast_event';

-- :epoch
SELECT value FROM holdfast_meta WHERE name = 'epoch';

-- :pending
SELECT EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'waiting')
    OR EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'scheduled'
               AND (attempts > 0 OR run_at_ms <= :now));
