-- Each queue over a short time, in steps of seconds, from the events themselves.
SELECT queue, {at_step} AS step,
    count(*) FILTER (WHERE transition IN ('enqueue', 'requeue')) AS enqueued,
    count(*) FILTER (WHERE transition = 'complete') AS completed,
    count(*) FILTER (WHERE transition = 'fail') AS failed,
    count(*) FILTER (WHERE transition = 'retry') AS retried,
    count(*) FILTER (WHERE transition = 'reap' OR (transition = 'fail' AND cause = 'stall')) AS stalled
FROM events
WHERE day >= {day} AND at >= {since} AND at < {until} AND transition <> 'operate' AND {chosen} GROUP BY 1, 2
