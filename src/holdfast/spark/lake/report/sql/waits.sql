-- How long attempts had waited, by the step in which they began; all queues together in the rows without a queue.
SELECT queue, step, percentile_cont(0.5) WITHIN GROUP (ORDER BY wait_ms) AS wait_p50_ms,
    percentile_cont(0.9) WITHIN GROUP (ORDER BY wait_ms) AS wait_p90_ms,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY wait_ms) AS wait_p99_ms
FROM (
    SELECT queue, wait_ms, {started_step} AS step FROM attempts
    WHERE (day IS NULL OR day >= {day}) AND started_at >= {since} AND started_at < {until}
        AND wait_ms IS NOT NULL AND {chosen}
)
GROUP BY GROUPING SETS ((queue, step), (step))
