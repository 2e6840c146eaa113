-- The most frequent kinds of error.
SELECT queue, error_signature, max(error_type) AS error_type, max(task) AS task, sum(count) AS count,
    min(minute) AS first, max(minute) AS last, max(example) AS example
FROM errors WHERE minute >= {since} GROUP BY queue, error_signature ORDER BY 5 DESC, 1 LIMIT 20
