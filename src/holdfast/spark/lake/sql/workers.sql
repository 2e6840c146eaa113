-- What the attempts that ended in this batch add to each worker's minutes. An attempt counts in each minute it ran in.
WITH ran AS (
    SELECT worker, unix_millis(at) - run_ms AS began, unix_millis(at) AS ended
    FROM {batch} WHERE run_ms IS NOT NULL AND worker IS NOT NULL
), spread AS (
    SELECT worker, began, ended, explode(sequence(began div 60000, ended div 60000)) AS number FROM ran
)
SELECT worker, timestamp_millis(number * 60000) AS minute,
    count_if(ended div 60000 = number) AS ended,
    sum(least(ended, (number + 1) * 60000) - greatest(began, number * 60000)) AS busy_ms,
    CAST(timestamp_millis(number * 60000) AS date) AS day
FROM spread
GROUP BY worker, number
