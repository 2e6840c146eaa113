-- All workers over time: how many attempts ran at once in each step, on average, and on how many workers.
WITH ran AS (
    SELECT worker, greatest({began_us}, {since_us}) AS began, least({ended_us}, {until_us}) AS ended
    FROM attempts
    WHERE worker IS NOT NULL AND (day IS NULL OR day >= {day}) AND {began_us} < {until_us} AND {ended_us} > {since_us}
        AND {chosen}
), steps AS (
    SELECT worker, began, ended, unnest(range(began / {step_us}, (ended - 1) / {step_us} + 1)) AS step FROM ran
)
SELECT step, count(DISTINCT worker) AS workers,
    sum(least(ended, (step + 1) * {step_us}) - greatest(began, step * {step_us})) / CAST({step_us} AS double) AS busy
FROM steps GROUP BY step
