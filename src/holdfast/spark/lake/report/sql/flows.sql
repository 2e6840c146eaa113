-- How many jobs each step has more at its end than at its beginning. What was open before is counted in the first one.
WITH there AS (
    SELECT queue, enqueued_at, finished_at FROM jobs
    WHERE (day IS NULL OR day >= {day}) AND (enqueued_at IS NULL OR enqueued_at < {until})
        AND (finished_at IS NULL OR finished_at >= {since}) AND {chosen}
), changes AS (
    SELECT queue, CASE WHEN enqueued_at >= {since} THEN {enqueued_step} ELSE {first_step} END AS step, 1 AS change
    FROM there
    UNION ALL
    SELECT queue, {finished_step} AS step, -1 AS change FROM there WHERE finished_at < {until}
)
SELECT queue, step, sum(change) AS change FROM changes GROUP BY queue, step
