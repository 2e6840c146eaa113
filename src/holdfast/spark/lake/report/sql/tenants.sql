-- The concurrency keys that were served most.
WITH served AS (
    SELECT queue, key, sum(started) AS started, sum(ended) AS ended, sum(completed) AS completed, sum(failed) AS failed,
        sum(wait_mean_ms * started) / nullif(sum(started), 0) AS wait_mean_ms, max(wait_max_ms) AS wait_max_ms,
        sum(ran_ms) AS ran_ms
    FROM tenants WHERE minute >= {since} AND minute < {until} AND {chosen} GROUP BY queue, key
)
SELECT *, CAST(started AS double) / nullif(sum(started) OVER (PARTITION BY queue), 0) AS share,
    count(*) OVER () AS all_rows
FROM served ORDER BY started DESC, queue, key LIMIT 20
