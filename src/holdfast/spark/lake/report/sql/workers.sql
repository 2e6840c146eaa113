-- Each worker over the whole time: `busy` is how many of its slots were at work, on average, while it worked.
SELECT worker, sum(ended) AS ended, sum(busy_ms) AS busy_ms, count(*) AS minutes, min(minute) AS first,
    max(minute) AS last, sum(busy_ms) / (60000.0 * count(*)) AS busy
FROM workers WHERE minute >= {since} GROUP BY worker ORDER BY 3 DESC, 1 LIMIT 30
