-- Each kind of error of each queue in each hour, with a message if one is known.
WITH counted AS (
    SELECT date_trunc('hour', minute) AS hour, queue, error_signature, max_by(error_type, minute) AS error_type,
        max_by(task, minute) AS task, max_by(example, minute) AS example, sum(count) AS count
    FROM errors GROUP BY date_trunc('hour', minute), queue, error_signature
), told AS (
    SELECT error_signature, max_by(message, seen_at) AS message FROM messages GROUP BY error_signature
)
SELECT c.hour, c.queue, c.error_signature, c.error_type, t.message, c.task, c.count, c.example
FROM counted c LEFT JOIN told t ON t.error_signature = c.error_signature
