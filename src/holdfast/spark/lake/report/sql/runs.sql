-- How long attempts ran and how many went wrong, by the step in which they ended; all queues in the rows without a queue.
SELECT queue, step, percentile_cont(0.5) WITHIN GROUP (ORDER BY run_ms) AS run_p50_ms,
    percentile_cont(0.9) WITHIN GROUP (ORDER BY run_ms) AS run_p90_ms,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY run_ms) AS run_p99_ms,
    count(*) AS ended, count(*) FILTER (WHERE {wrong}) AS wrong, count(*) FILTER (WHERE outcome = 'stalled') AS reaped
FROM (
    SELECT queue, run_ms, outcome, {ended_step} AS step FROM attempts
    WHERE day >= {day} AND ended_at >= {since} AND ended_at < {until} AND {ran} AND {chosen}
)
GROUP BY GROUPING SETS ((queue, step), (step))
