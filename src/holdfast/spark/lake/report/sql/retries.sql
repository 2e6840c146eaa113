-- What attempts that went wrong have cost, for each task: those that raised, timed out, or lost their worker.
WITH counted AS (
    SELECT queue, task, count(*) AS ended, count(*) FILTER (WHERE {wrong}) AS wrong,
        count(*) FILTER (WHERE outcome = 'retried') AS retried,
        count(*) FILTER (WHERE outcome = 'failed') AS failed,
        count(*) FILTER (WHERE outcome = 'stalled') AS stalled,
        sum(run_ms) AS ran_ms, coalesce(sum(run_ms) FILTER (WHERE {wrong}), 0) AS wrong_ms
    FROM attempts
    WHERE day >= {day} AND ended_at >= {since} AND ended_at < {until} AND {ran} AND {chosen}
    GROUP BY queue, task
)
SELECT *, CAST(wrong_ms AS double) / nullif(ran_ms, 0) AS wrong_share, count(*) OVER () AS all_rows
FROM counted WHERE wrong > 0 ORDER BY wrong_ms DESC, wrong DESC, queue, task LIMIT 20
