-- What attempts that went wrong have cost, for each task in each hour.
SELECT date_trunc('hour', ended_at) AS hour, queue, task, count(*) AS ended,
    count(*) FILTER (WHERE outcome IN ('retried', 'failed', 'stalled')) AS wrong,
    count(*) FILTER (WHERE outcome = 'retried') AS retried, count(*) FILTER (WHERE outcome = 'failed') AS failed,
    count(*) FILTER (WHERE outcome = 'stalled') AS stalled, sum(run_ms) AS ran_ms,
    coalesce(sum(run_ms) FILTER (WHERE outcome IN ('retried', 'failed', 'stalled')), 0) AS wrong_ms
FROM attempts WHERE run_ms IS NOT NULL AND outcome <> 'dropped'
GROUP BY date_trunc('hour', ended_at), queue, task
