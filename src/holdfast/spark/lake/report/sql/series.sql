-- Each queue over time, in steps.
SELECT queue, to_timestamp_seconds(CAST(floor(date_part('epoch', minute) / {step}) AS bigint) * {step}) AS at,
    sum(enqueued) AS enqueued, sum(completed) AS completed, sum(failed) AS failed, sum(retried) AS retried,
    sum(stalled) AS stalled, max(wait_p50_ms) AS wait_p50_ms, max(wait_p90_ms) AS wait_p90_ms,
    max(run_p50_ms) AS run_p50_ms, max(run_p90_ms) AS run_p90_ms, min(fairness) AS fairness
FROM minutes WHERE minute >= {since} GROUP BY 1, 2 ORDER BY 1, 2
