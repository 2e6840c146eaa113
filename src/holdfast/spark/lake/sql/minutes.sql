-- Each queue in each minute that the batch touched, from all events of these minutes.
WITH counted AS (
    SELECT queue, minute,
        count_if(transition IN ('enqueue', 'requeue')) AS enqueued,
        count_if(transition = 'claim') AS started,
        count_if(run_ms IS NOT NULL) AS ended,
        count_if(transition = 'complete') AS completed,
        count_if(transition = 'fail') AS failed,
        count_if(transition = 'cancel') AS cancelled,
        count_if(transition = 'retry') AS retried,
        count_if(cause = 'timeout' AND transition IN ('retry', 'fail')) AS timed_out,
        count_if(transition = 'reap' OR (transition = 'fail' AND cause = 'stall')) AS stalled,
        count_if(transition = 'release') AS released,
        count_if(transition = 'snooze') AS snoozed,
        count_if(run_ms IS NOT NULL AND (transition = 'retry'
            OR (transition = 'fail' AND cause IN ('failure', 'timeout', 'permanent')))) AS wrong,
        percentile(wait_ms, array(0.5, 0.9, 0.99)) AS wait, max(wait_ms) AS oldest_ms,
        percentile(run_ms, array(0.5, 0.9, 0.99)) AS run, max(run_ms) AS longest_ms
    FROM {told} GROUP BY queue, minute
), fair AS (
    SELECT queue, minute, count(*) AS keys,
        power(sum(started), 2) / (count(*) * sum(started * started)) AS fairness,
        CASE WHEN sum(wait_mean_ms) > 0
            THEN power(sum(wait_mean_ms), 2) / (count(*) * sum(wait_mean_ms * wait_mean_ms)) ELSE 1.0 END AS wait_fairness
    FROM {tenants} WHERE started > 0 GROUP BY queue, minute
)
SELECT c.queue, c.minute, enqueued, started, ended, completed, failed, cancelled, retried, timed_out, stalled, released,
    snoozed, wait[0] AS wait_p50_ms, wait[1] AS wait_p90_ms, wait[2] AS wait_p99_ms, oldest_ms,
    run[0] AS run_p50_ms, run[1] AS run_p90_ms, run[2] AS run_p99_ms, longest_ms,
    wrong / nullif(ended, 0) AS failure_rate, retried / nullif(ended, 0) AS retry_rate,
    stalled / nullif(ended, 0) AS stall_rate,
    coalesce(f.keys, 0) AS keys, f.fairness, f.wait_fairness, CAST(c.minute AS date) AS day
FROM counted c LEFT JOIN fair f ON f.queue = c.queue AND f.minute = c.minute
