-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, continue or end the chain, start the successor, append event, tell waiters

-- :finish
UPDATE holdfast_job
SET state = 'completed', exit = 'complete', result = ?1, finished_at_ms = ?2, error = NULL,
    free_at_ms = ?2 + coalesce(?3, result_ttl_ms, ?4),
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND 999 OR coalesce(?3, result_ttl_ms) IS NOT NULL
        THEN max(?2 + max(coalesce(?3, result_ttl_ms, ?4), ?5), coalesce(dedup_until_ms, 0)) END
WHERE run = ?6 AND attempts = ?7 AND session = ?8 AND state = 'active';

-- :from_outside
UPDATE holdfast_job
SET state = 'completed', exit = 'outside', result = :result, finished_at_ms = :now, error = NULL,
    free_at_ms = :now + coalesce(:ttl, result_ttl_ms, :queue_ttl),
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND 999 OR coalesce(:ttl, result_ttl_ms) IS NOT NULL
        THEN max(:now + max(coalesce(:ttl, result_ttl_ms, :queue_ttl), :kept), coalesce(dedup_until_ms, 0)) END
WHERE run = :run;

-- :finish_all
UPDATE holdfast_job
SET state = 'completed', exit = 'complete', result = CAST(entry.value AS BLOB), finished_at_ms = :now, error = NULL,
    free_at_ms = :now + coalesce(result_ttl_ms, :queue_ttl),
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND 999 OR result_ttl_ms IS NOT NULL
        THEN max(:now + max(coalesce(result_ttl_ms, :queue_ttl), :kept), coalesce(dedup_until_ms, 0)) END
FROM json_each(:results) AS entry
WHERE run = CAST(entry.key AS INTEGER);

-- :held
SELECT count(*), sum(attempts), count(chain) FROM holdfast_job
WHERE run IN (SELECT value FROM json_each(:runs)) AND state = 'active' AND session = :session;
