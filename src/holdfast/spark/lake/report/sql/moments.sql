-- Each queue over a short time, in steps of seconds, from the events themselves.
SELECT queue, to_timestamp_seconds(CAST(floor(date_part('epoch', at) / {step}) AS bigint) * {step}) AS at,
    count(*) FILTER (WHERE transition IN ('enqueue', 'requeue')) AS enqueued,
    count(*) FILTER (WHERE transition = 'complete') AS completed,
    count(*) FILTER (WHERE transition = 'fail') AS failed,
    count(*) FILTER (WHERE transition = 'retry') AS retried,
    count(*) FILTER (WHERE transition = 'reap' OR (transition = 'fail' AND cause = 'stall')) AS stalled,
    approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY wait_ms) AS wait_p50_ms,
    approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY wait_ms) AS wait_p90_ms,
    approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY run_ms) AS run_p50_ms,
    approx_percentile_cont(0.9) WITHIN GROUP (ORDER BY run_ms) AS run_p90_ms
FROM events WHERE at >= {since} GROUP BY 1, 2 ORDER BY 1, 2
