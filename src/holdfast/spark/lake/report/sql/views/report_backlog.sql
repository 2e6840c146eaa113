-- How many jobs of each queue were open at the end of each hour in which one came or went.
WITH changes AS (
    SELECT date_trunc('hour', enqueued_at) AS hour, queue, 1 AS change FROM jobs WHERE enqueued_at IS NOT NULL
    UNION ALL
    SELECT date_trunc('hour', finished_at) AS hour, queue, -1 AS change FROM jobs
    WHERE finished_at IS NOT NULL AND enqueued_at IS NOT NULL
), hours AS (
    SELECT hour, queue, sum(change) AS change FROM changes GROUP BY hour, queue
)
SELECT hour, queue,
    sum(change) OVER (PARTITION BY queue ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS open_jobs
FROM hours
