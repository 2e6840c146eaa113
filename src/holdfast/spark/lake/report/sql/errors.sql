-- The most frequent kinds of error.
WITH found AS (
    SELECT queue, error_signature, last_value(error_type ORDER BY minute) AS error_type,
        last_value(task ORDER BY minute) AS task, sum(count) AS count, min(minute) AS first, max(minute) AS last,
        last_value(example ORDER BY minute) AS example
    FROM errors WHERE minute >= {since} AND minute < {until} AND {chosen} GROUP BY queue, error_signature
)
SELECT *, count(*) OVER () AS all_rows, sum(count) OVER () AS all_errors
FROM found ORDER BY count DESC, queue, error_signature LIMIT {most}
