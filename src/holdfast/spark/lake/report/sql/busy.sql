-- All workers over time, in steps: how many slots were at work, on average.
SELECT to_timestamp_seconds(CAST(floor(date_part('epoch', minute) / {step}) AS bigint) * {step}) AS at,
    count(DISTINCT worker) AS workers, sum(busy_ms) / (1000.0 * {step}) AS busy
FROM workers WHERE minute >= {since} GROUP BY 1 ORDER BY 1
