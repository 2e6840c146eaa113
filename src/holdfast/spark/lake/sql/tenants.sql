-- Each concurrency key of each queue in each minute that the batch touched.
SELECT queue, minute, key,
    count_if(transition = 'claim') AS started,
    count_if(run_ms IS NOT NULL) AS ended,
    count_if(transition = 'complete') AS completed,
    count_if(transition = 'fail') AS failed,
    avg(wait_ms) AS wait_mean_ms, max(wait_ms) AS wait_max_ms,
    coalesce(sum(run_ms), 0) AS ran_ms,
    CAST(minute AS date) AS day
FROM {told}
WHERE key IS NOT NULL AND (wait_ms IS NOT NULL OR run_ms IS NOT NULL OR transition IN ('complete', 'fail'))
GROUP BY queue, minute, key
