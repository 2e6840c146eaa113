-- Each kind of error of each queue in each minute that the batch touched.
SELECT queue, minute, error_signature, max_by(error_type, sequence) AS error_type, max_by(task, sequence) AS task,
    count(*) AS count, max_by(id, sequence) AS example, CAST(minute AS date) AS day
FROM {told}
WHERE error_signature IS NOT NULL
GROUP BY queue, minute, error_signature
