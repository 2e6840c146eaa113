-- The concurrency keys that were served most.
SELECT queue, key, sum(started) AS started, sum(completed) AS completed, sum(failed) AS failed,
    sum(wait_mean_ms * started) / nullif(sum(started), 0) AS wait_mean_ms, max(wait_max_ms) AS wait_max_ms,
    sum(ran_ms) AS ran_ms
FROM tenants WHERE minute >= {since} GROUP BY queue, key ORDER BY 3 DESC, 1, 2 LIMIT 20
