-- One row for each run: what the batch tells of it, joined with what was known while it was open.
-- `expire`, and `delete` of a finished run, are no part of its life: they only close a run whose end was lost.
WITH told AS (
    SELECT epoch, queue, id, run, sequence,
        CASE WHEN transition IN ('enqueue', 'requeue') OR (transition = 'cancel' AND cause = 'successor')
            THEN at END AS enqueued_at,
        CASE WHEN transition = 'claim' THEN at END AS first_started_at,
        CASE WHEN transition = 'claim' THEN at END AS started_at,
        CASE WHEN state IN ('completed', 'failed', 'cancelled') THEN at END AS finished_at,
        coalesce(wait_ms, 0) AS waited_ms, coalesce(run_ms, 0) AS ran_ms,
        CASE WHEN worker IS NOT NULL THEN struct(sequence, worker) END AS held,
        CASE WHEN error_type IS NOT NULL THEN struct(sequence, error_type, error_signature) END AS error,
        CASE WHEN transition IN ('enqueue', 'requeue')
            OR (transition = 'update' AND state IN ('waiting', 'scheduled', 'blocked')) -- else it is a successor's
            THEN struct(sequence, tags) END AS tagged,
        CASE WHEN state IS NOT NULL THEN struct(sequence, state, cause, task, key, priority, run_at, attempt AS attempts,
            failures, stalls, timeouts, releases) END AS last,
        CASE WHEN state IS NULL THEN struct(sequence, at, transition) END AS removed
    FROM {batch}
    UNION ALL
    SELECT epoch, queue, id, run, sequence, enqueued_at, first_started_at, started_at, finished_at, waited_ms, ran_ms,
        CASE WHEN worker IS NOT NULL THEN struct(worker_sequence AS sequence, worker) END AS held,
        CASE WHEN error_type IS NOT NULL
            THEN struct(error_sequence AS sequence, error_type, error_signature) END AS error,
        CASE WHEN tags_sequence IS NOT NULL THEN struct(tags_sequence AS sequence, tags) END AS tagged,
        struct(sequence, state, cause, task, key, priority, run_at, attempts, failures, stalls, timeouts, releases)
            AS last,
        CAST(NULL AS struct<sequence: bigint, at: timestamp, transition: string>) AS removed
    FROM {known}
), gathered AS (
    SELECT /*+ REPARTITION(block) */ * FROM (SELECT *, run div 16384 AS block FROM told)
), folded AS (
    SELECT block, epoch, queue, id, run, max(sequence) AS sequence,
        min(enqueued_at) AS enqueued_at, min(first_started_at) AS first_started_at, max(started_at) AS started_at,
        max(finished_at) AS finished_at, sum(waited_ms) AS waited_ms, sum(ran_ms) AS ran_ms,
        max(held) AS held, max(error) AS error, max(tagged) AS tagged, max(last) AS last, max(removed) AS removed
    FROM gathered
    GROUP BY block, epoch, queue, id, run
    HAVING last IS NOT NULL
), closed AS (
    SELECT *, coalesce(finished_at, removed.at) AS over_at FROM folded
)
SELECT epoch, queue, id, run, last.task, last.key, last.priority, tagged.tags,
    CASE WHEN finished_at IS NOT NULL OR removed IS NULL THEN last.state
        WHEN removed.transition = 'delete' THEN 'deleted' ELSE 'gone' END AS state,
    last.cause, enqueued_at, last.run_at, first_started_at, started_at, over_at AS finished_at,
    last.attempts, last.failures, last.stalls, last.timeouts, last.releases, waited_ms, ran_ms,
    held.worker, error.error_type, error.error_signature, sequence, held.sequence AS worker_sequence,
    error.sequence AS error_sequence, tagged.sequence AS tags_sequence,
    CAST(over_at AS date) AS day,
    IF(over_at IS NULL, block, NULL) AS shelf
FROM closed
