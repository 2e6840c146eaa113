-- Open jobs as of the last batch, and since when.
SELECT queue, state, count(*) AS jobs, min(CASE WHEN state = 'active' THEN started_at ELSE run_at END) AS since
FROM jobs WHERE day IS NULL AND {chosen} GROUP BY queue, state ORDER BY queue, state
