-- Each queue over the whole time.
WITH waits AS (
    SELECT queue, approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY wait_ms) AS wait_p50_ms, approx_percentile_cont(0.99) WITHIN GROUP (ORDER BY wait_ms) AS wait_p99_ms
    FROM attempts WHERE started_at >= {since} AND wait_ms IS NOT NULL GROUP BY queue
), runs AS (
    SELECT queue, approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY run_ms) AS run_p50_ms, approx_percentile_cont(0.99) WITHIN GROUP (ORDER BY run_ms) AS run_p99_ms
    FROM attempts WHERE ended_at >= {since} AND run_ms IS NOT NULL GROUP BY queue
), counted AS (
    SELECT queue, sum(enqueued) AS enqueued, sum(completed) AS completed, sum(failed) AS failed,
        sum(cancelled) AS cancelled, sum(ended) AS ended, sum(retried) AS retried, sum(stalled) AS stalled,
        sum(timed_out) AS timed_out, max(oldest_ms) AS oldest_ms, max(completed) AS peak,
        sum(failure_rate * ended) / nullif(sum(ended), 0) AS failure_rate,
        sum(fairness * started) / nullif(sum(CASE WHEN fairness IS NOT NULL THEN started END), 0) AS fairness
    FROM minutes WHERE minute >= {since} GROUP BY queue
)
SELECT c.*, w.wait_p50_ms, w.wait_p99_ms, r.run_p50_ms, r.run_p99_ms
FROM counted c LEFT JOIN waits w ON w.queue = c.queue LEFT JOIN runs r ON r.queue = c.queue
ORDER BY c.completed DESC, c.queue
