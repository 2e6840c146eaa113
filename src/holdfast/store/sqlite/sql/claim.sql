-- claim: waiting -> active
-- guard: the queue's limits allow it, the worker has room, and a suspect no more company than it may have
-- effects: count an attempt, give the lease, append event

-- :next
SELECT json_group_array(run) FROM (
    SELECT run FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND key IS NULL AND company IS NULL
    ORDER BY priority DESC, run_at_ms, run LIMIT :room);

-- The keys that are ready, in hex, by their turns, with the run of each that comes next.
-- :next_of_keys
SELECT json_group_array(json_array(hex(key), turn, run)) FROM (
    SELECT lane.key, lane.turn,
        (SELECT job.run FROM holdfast_job AS job
            WHERE job.queue = :queue AND job.state = 'waiting' AND job.key = lane.key AND job.company IS NULL
            ORDER BY job.priority DESC, job.run_at_ms, job.run LIMIT 1) AS run
    FROM holdfast_lane AS lane WHERE lane.queue = :queue AND lane.ready = 1 ORDER BY lane.turn LIMIT :limit);

-- Which of these queues have a job that may be claimed, or will be: their places in the list.
-- :giving
SELECT json_group_array(each.key) FROM json_each(:queues) AS each
WHERE EXISTS (SELECT 1 FROM holdfast_job WHERE queue = each.value AND state = 'waiting')
    OR EXISTS (SELECT 1 FROM holdfast_job WHERE queue = each.value AND state = 'scheduled')
    OR EXISTS (SELECT 1 FROM holdfast_lane WHERE queue = each.value);

-- :take
UPDATE holdfast_job
SET state = 'active', attempts = attempts + 1, session = :session, claimed_at_ms = :now, exit = NULL,
    last_session = session, last_exit = exit
WHERE run IN (SELECT value FROM json_each(:runs));

-- The columns are those of `ClaimRow`, in its order.
-- :read
SELECT json_group_array(json_array(j.run, j.attempts, j.id, j.task, j.priority, j.key, j.run_at_ms, j.enqueued_at_ms,
    j.claimed_at_ms, j.failures, j.stalls, j.timeouts, j.releases, j.snoozes, j.spared, j.company,
    hex(j.overrides), hex(j.envelope), hex(j.error), CASE WHEN j.checkpoint IS NOT NULL THEN hex(j.checkpoint) END,
    CASE WHEN typeof(j.payload) = 'blob' AND length(j.payload) <= @SMALL_BYTES THEN hex(j.payload) END,
    f.queue, f.id, j.chain, j.position))
FROM holdfast_job j LEFT JOIN holdfast_job f ON f.run = j.chain
WHERE j.run IN (SELECT value FROM json_each(:runs));

-- :payload
SELECT payload FROM holdfast_job WHERE run = :run;

-- :undo
UPDATE holdfast_job SET state = 'waiting', attempts = attempts - 1, session = last_session, exit = last_exit
WHERE run = :run;

-- :active
SELECT count(*) FROM holdfast_job WHERE queue = :queue AND state = 'active';

-- :next_scheduled
SELECT min(run_at_ms) FROM holdfast_job WHERE queue = :queue AND state = 'scheduled';

-- :keyless_waiting
SELECT EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND key IS NULL
    AND company IS NULL);

-- :a_suspect
SELECT all_of.count, job.queue, job.id, job.company
FROM (SELECT count(*) AS count, min(run) AS run FROM holdfast_job WHERE state = 'waiting' AND company IS NOT NULL) AS all_of
JOIN holdfast_job AS job ON job.run = all_of.run;

-- :any_suspect
SELECT EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND company IS NOT NULL);

-- :suspects
SELECT run, key, company FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND company IS NOT NULL
ORDER BY priority DESC, run_at_ms, run LIMIT :limit;
