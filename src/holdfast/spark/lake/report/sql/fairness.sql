-- How evenly the concurrency keys of each queue were served: Jain's index is 1 when all are alike, 1/keys when one has all.
WITH served AS (
    SELECT queue, key, CAST(sum(started) AS double) AS started,
        sum(wait_mean_ms * started) / sum(started) AS wait_ms
    FROM tenants WHERE minute >= {since} AND minute < {until} AND {chosen} GROUP BY queue, key HAVING sum(started) > 0
)
SELECT queue, count(*) AS keys, power(sum(started), 2) / (count(*) * sum(started * started)) AS fairness,
    CASE WHEN sum(wait_ms) > 0 THEN power(sum(wait_ms), 2) / (count(*) * sum(wait_ms * wait_ms)) ELSE 1.0 END
        AS wait_fairness,
    max(started) / sum(started) AS largest_share, last_value(key ORDER BY started, key) AS largest,
    max(wait_ms) AS slowest_ms, last_value(key ORDER BY wait_ms, key) AS slowest
FROM served GROUP BY queue HAVING count(*) > 1 ORDER BY queue
