-- How evenly the concurrency keys of each queue were served in each hour: Jain's index.
WITH served AS (
    SELECT date_trunc('hour', minute) AS hour, queue, key, CAST(sum(started) AS double) AS started,
        sum(wait_mean_ms * started) / sum(started) AS wait_ms
    FROM tenants WHERE started > 0 GROUP BY date_trunc('hour', minute), queue, key
)
SELECT hour, queue, count(*) AS keys, power(sum(started), 2) / (count(*) * sum(started * started)) AS fairness,
    CASE WHEN sum(wait_ms) > 0 THEN power(sum(wait_ms), 2) / (count(*) * sum(wait_ms * wait_ms)) ELSE 1.0 END
        AS wait_fairness
FROM served GROUP BY hour, queue
