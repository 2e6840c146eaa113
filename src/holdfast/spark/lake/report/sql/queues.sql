-- Each queue over the whole time, and all queues together, in the row without a queue.
WITH counted AS (
    SELECT queue, sum(enqueued) AS enqueued, sum(started) AS started, sum(completed) AS completed,
        sum(failed) AS failed, sum(cancelled) AS cancelled, sum(retried) AS retried, sum(timed_out) AS timed_out,
        sum(stalled) AS stalled, sum(released) AS released, sum(snoozed) AS snoozed, max(oldest_ms) AS oldest_ms,
        max(longest_ms) AS longest_ms
    FROM minutes WHERE minute >= {since} AND minute < {until} AND {chosen} GROUP BY GROUPING SETS ((queue), ())
), waits AS (
    SELECT queue, percentile_cont(0.5) WITHIN GROUP (ORDER BY wait_ms) AS wait_p50_ms,
        percentile_cont(0.9) WITHIN GROUP (ORDER BY wait_ms) AS wait_p90_ms,
        percentile_cont(0.99) WITHIN GROUP (ORDER BY wait_ms) AS wait_p99_ms
    FROM attempts
    WHERE (day IS NULL OR day >= {day}) AND started_at >= {since} AND started_at < {until}
        AND wait_ms IS NOT NULL AND {chosen}
    GROUP BY GROUPING SETS ((queue), ())
), runs AS (
    SELECT queue, count(*) AS ended, count(*) FILTER (WHERE {wrong}) AS wrong, sum(run_ms) AS ran_ms,
        coalesce(sum(run_ms) FILTER (WHERE {wrong}), 0) AS wrong_ms,
        percentile_cont(0.5) WITHIN GROUP (ORDER BY run_ms) AS run_p50_ms,
        percentile_cont(0.9) WITHIN GROUP (ORDER BY run_ms) AS run_p90_ms,
        percentile_cont(0.99) WITHIN GROUP (ORDER BY run_ms) AS run_p99_ms
    FROM attempts
    WHERE day >= {day} AND ended_at >= {since} AND ended_at < {until} AND {ran} AND {chosen}
    GROUP BY GROUPING SETS ((queue), ())
)
SELECT c.*, w.wait_p50_ms, w.wait_p90_ms, w.wait_p99_ms, coalesce(r.ended, 0) AS ended, coalesce(r.wrong, 0) AS wrong,
    coalesce(r.ran_ms, 0) AS ran_ms, coalesce(r.wrong_ms, 0) AS wrong_ms,
    CAST(r.wrong AS double) / nullif(r.ended, 0) AS wrong_rate,
    CAST(r.wrong_ms AS double) / nullif(r.ran_ms, 0) AS wrong_share,
    r.run_p50_ms, r.run_p90_ms, r.run_p99_ms
FROM counted c LEFT JOIN waits w ON coalesce(w.queue, '') = coalesce(c.queue, '')
    LEFT JOIN runs r ON coalesce(r.queue, '') = coalesce(c.queue, '')
ORDER BY (c.queue IS NULL) DESC, c.completed DESC, c.queue
