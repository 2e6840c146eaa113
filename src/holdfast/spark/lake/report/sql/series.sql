-- Each queue over time, in steps of minutes.
SELECT queue, {minute_step} AS step, sum(enqueued) AS enqueued, sum(completed) AS completed, sum(failed) AS failed,
    sum(retried) AS retried, sum(stalled) AS stalled
FROM minutes WHERE minute >= {since} AND minute < {until} AND {chosen} GROUP BY 1, 2
