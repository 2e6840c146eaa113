-- Each concurrency key of each queue in each hour, and its share of the attempts that began.
WITH served AS (
    SELECT date_trunc('hour', minute) AS hour, queue, key, sum(started) AS started, sum(ended) AS ended,
        sum(completed) AS completed, sum(failed) AS failed,
        sum(wait_mean_ms * started) / nullif(sum(started), 0) AS wait_mean_ms, max(wait_max_ms) AS wait_max_ms,
        sum(ran_ms) AS ran_ms
    FROM tenants GROUP BY date_trunc('hour', minute), queue, key
)
SELECT hour, queue, key, started, ended, completed, failed, wait_mean_ms, wait_max_ms, ran_ms,
    CAST(started AS double) / nullif(sum(started) OVER (PARTITION BY hour, queue), 0) AS share
FROM served
