-- How busy each worker was in each hour: the time of its attempts, of the most slots that it has ever used at once.
WITH edges AS (
    SELECT worker, started_at AS moment, 1 AS change FROM attempts WHERE worker IS NOT NULL AND started_at IS NOT NULL
    UNION ALL
    SELECT worker, ended_at AS moment, -1 AS change FROM attempts
    WHERE worker IS NOT NULL AND started_at IS NOT NULL AND ended_at IS NOT NULL
), running AS (
    SELECT worker, sum(change) OVER (PARTITION BY worker ORDER BY moment, change
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS running
    FROM edges
), slots AS (
    SELECT worker, greatest(max(running), 1) AS slots FROM running GROUP BY worker
), hours AS (
    SELECT date_trunc('hour', minute) AS hour, worker, sum(ended) AS ended, sum(busy_ms) AS busy_ms
    FROM workers GROUP BY date_trunc('hour', minute), worker
)
SELECT h.hour, h.worker, h.ended, h.busy_ms, s.slots, h.busy_ms / (3600000.0 * s.slots) AS utilisation
FROM hours h JOIN slots s ON s.worker = h.worker
