-- All workers over a short time, in steps of seconds: how many slots were at work, on average.
WITH ran AS (
    SELECT worker, date_part('epoch', at) - run_ms / 1000.0 AS began, date_part('epoch', at) AS ended
    FROM events WHERE run_ms IS NOT NULL AND worker IS NOT NULL AND at >= {since}
), steps AS (
    SELECT worker, began, ended, unnest(range(CAST(floor(began / {step}) AS bigint), CAST(floor(ended / {step}) AS bigint) + 1)) AS step
    FROM ran
)
SELECT to_timestamp_seconds(step * {step}) AS at, count(DISTINCT worker) AS workers,
    sum(least(ended, (step + 1) * {step}) - greatest(began, step * {step})) / {step} AS busy
FROM steps WHERE step * {step} >= date_part('epoch', {since}) GROUP BY 1 ORDER BY 1
