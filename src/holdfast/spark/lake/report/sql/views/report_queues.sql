-- Each queue in each hour: counts, what went wrong, what that has cost, and percentiles of waits and run times.
WITH counted AS (
    SELECT date_trunc('hour', minute) AS hour, queue, sum(enqueued) AS enqueued, sum(started) AS started,
        sum(completed) AS completed, sum(failed) AS failed, sum(cancelled) AS cancelled, sum(retried) AS retried,
        sum(timed_out) AS timed_out, sum(stalled) AS stalled
    FROM minutes GROUP BY date_trunc('hour', minute), queue
), waits AS (
    SELECT date_trunc('hour', started_at) AS hour, queue,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY wait_ms) AS wait_p50_ms,
        percentile_cont(0.9) WITHIN GROUP (ORDER BY wait_ms) AS wait_p90_ms,
        percentile_cont(0.99) WITHIN GROUP (ORDER BY wait_ms) AS wait_p99_ms
    FROM attempts WHERE wait_ms IS NOT NULL GROUP BY date_trunc('hour', started_at), queue
), runs AS (
    SELECT date_trunc('hour', ended_at) AS hour, queue, count(*) AS ended,
        count(*) FILTER (WHERE outcome IN ('retried', 'failed', 'stalled')) AS wrong, sum(run_ms) AS ran_ms,
        coalesce(sum(run_ms) FILTER (WHERE outcome IN ('retried', 'failed', 'stalled')), 0) AS wrong_ms,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY run_ms) AS run_p50_ms,
        percentile_cont(0.9) WITHIN GROUP (ORDER BY run_ms) AS run_p90_ms,
        percentile_cont(0.99) WITHIN GROUP (ORDER BY run_ms) AS run_p99_ms
    FROM attempts WHERE run_ms IS NOT NULL AND outcome <> 'dropped' GROUP BY date_trunc('hour', ended_at), queue
)
SELECT c.hour, c.queue, c.enqueued, c.started, c.completed, c.failed, c.cancelled, c.retried, c.timed_out, c.stalled,
    coalesce(r.ended, 0) AS ended, coalesce(r.wrong, 0) AS wrong, r.wrong / CAST(r.ended AS double) AS wrong_rate,
    coalesce(r.ran_ms, 0) AS ran_ms, coalesce(r.wrong_ms, 0) AS wrong_ms,
    w.wait_p50_ms, w.wait_p90_ms, w.wait_p99_ms, r.run_p50_ms, r.run_p90_ms, r.run_p99_ms
FROM counted c LEFT JOIN waits w ON w.hour = c.hour AND w.queue = c.queue
    LEFT JOIN runs r ON r.hour = c.hour AND r.queue = c.queue
