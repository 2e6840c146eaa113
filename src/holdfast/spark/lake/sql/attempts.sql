-- One row for each attempt: what the batch tells of it, joined with what was known while it ran.
-- The first event that says how long it ran is its end. A run that is over, or gone, ends an attempt that was open.
WITH told AS (
    SELECT epoch, queue, id, run, attempt,
        CASE WHEN transition = 'claim' THEN struct(task, key, priority) END AS claimed,
        CASE WHEN transition = 'claim' THEN worker END AS worker,
        CASE WHEN transition = 'claim' THEN at END AS started_at,
        CASE WHEN transition = 'claim' THEN wait_ms END AS wait_ms,
        CASE WHEN run_ms IS NOT NULL THEN
            struct(sequence, at, run_ms, transition, cause, error_type, error_signature, worker, task, key, priority)
            END AS ending,
        CASE WHEN run_ms IS NULL AND transition <> 'claim' THEN at END AS dropped_at
    FROM {batch}
    WHERE attempt > 0 AND (transition = 'claim' OR run_ms IS NOT NULL OR state IS NULL
        OR state IN ('completed', 'failed', 'cancelled'))
    UNION ALL
    SELECT epoch, queue, id, run, attempt,
        CASE WHEN started_at IS NOT NULL THEN struct(task, key, priority) END AS claimed,
        worker, started_at, wait_ms,
        CASE WHEN outcome <> 'dropped' THEN struct(-1L AS sequence, ended_at AS at, run_ms, outcome AS transition, cause,
            error_type, error_signature, worker, task, key, priority) END AS ending,
        CASE WHEN outcome = 'dropped' THEN ended_at END AS dropped_at
    FROM {known}
), gathered AS (
    SELECT /*+ REPARTITION(block) */ * FROM (SELECT *, run div 16384 AS block FROM told)
), folded AS (
    SELECT block, epoch, queue, id, run, attempt,
        max(claimed) AS claimed, max(worker) AS worker, min(started_at) AS started_at, max(wait_ms) AS wait_ms,
        min(ending) AS ending, min(dropped_at) AS dropped_at
    FROM gathered
    GROUP BY block, epoch, queue, id, run, attempt
    HAVING started_at IS NOT NULL OR ending IS NOT NULL
), ended AS (
    SELECT *, coalesce(ending.at, dropped_at) AS ended_at,
        coalesce(claimed, struct(ending.task, ending.key, ending.priority)) AS known_as
    FROM folded
)
SELECT epoch, queue, id, run, attempt, known_as.task, known_as.key, known_as.priority,
    coalesce(worker, ending.worker) AS worker, started_at, wait_ms, ended_at,
    coalesce(ending.run_ms, unix_millis(dropped_at) - unix_millis(started_at)) AS run_ms,
    CASE ending.transition
        WHEN 'complete' THEN 'completed' WHEN 'retry' THEN 'retried' WHEN 'fail' THEN 'failed'
        WHEN 'snooze' THEN 'snoozed' WHEN 'release' THEN 'released' WHEN 'reap' THEN 'stalled'
        WHEN 'cancel' THEN 'cancelled' ELSE coalesce(ending.transition, IF(ended_at IS NULL, NULL, 'dropped'))
    END AS outcome,
    ending.cause, ending.error_type, ending.error_signature,
    CAST(ended_at AS date) AS day,
    IF(ended_at IS NULL, block, NULL) AS shelf
FROM ended
