-- Each worker: the time of its attempts, and the most of them at once, which is how many slots it has used.
WITH ran AS (
    SELECT worker, ended_at, greatest({began_us}, {since_us}) AS began, least({ended_us}, {until_us}) AS ended
    FROM attempts
    WHERE worker IS NOT NULL AND (day IS NULL OR day >= {day}) AND {began_us} < {until_us} AND {ended_us} >= {since_us}
        AND {chosen}
), edges AS (
    SELECT worker, began AS at, 1 AS change FROM ran UNION ALL SELECT worker, ended AS at, -1 AS change FROM ran
), running AS (
    SELECT worker, sum(change) OVER (PARTITION BY worker ORDER BY at, change ROWS UNBOUNDED PRECEDING) AS count
    FROM edges
), slots AS (
    SELECT worker, greatest(max(count), 1) AS slots FROM running GROUP BY worker
), counted AS (
    SELECT worker, count(*) FILTER (WHERE ended_at >= {since} AND ended_at < {until}) AS ended,
        sum(ended - began) / 1000.0 AS busy_ms, min(began) AS began, max(ended) AS over
    FROM ran GROUP BY worker
)
SELECT c.worker, c.ended, c.busy_ms, s.slots, (c.over - c.began) / 1000.0 AS span_ms,
    c.busy_ms / nullif(s.slots * (c.over - c.began) / 1000.0, 0) AS utilisation
FROM counted c JOIN slots s ON s.worker = c.worker
ORDER BY c.busy_ms DESC, c.worker
