-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, continue or end the chain, start the successor, append event, tell waiters

-- :finish
UPDATE holdfast_job
SET state = 'completed', exit = 'complete', result = :result, finished_at_ms = :now, error = NULL, signature = NULL,
    free_at_ms = :now + coalesce(:ttl, result_ttl_ms, :queue_ttl),
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND @WITH_CHAIN - 1 OR coalesce(:ttl, result_ttl_ms) IS NOT NULL
        THEN max(:now + max(coalesce(:ttl, result_ttl_ms, :queue_ttl), :kept), coalesce(dedup_until_ms, 0)) END
WHERE run = :run AND attempts = :attempt AND session = :session AND state = 'active';

-- :from_outside
UPDATE holdfast_job
SET state = 'completed', exit = 'outside', result = :result, finished_at_ms = :now, error = NULL, signature = NULL,
    free_at_ms = :now + coalesce(:ttl, result_ttl_ms, :queue_ttl),
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND @WITH_CHAIN - 1 OR coalesce(:ttl, result_ttl_ms) IS NOT NULL
        THEN max(:now + max(coalesce(:ttl, result_ttl_ms, :queue_ttl), :kept), coalesce(dedup_until_ms, 0)) END
WHERE run = :run;

-- :finish_all
UPDATE holdfast_job
SET state = 'completed', exit = 'complete', result = CAST(entry.value AS BLOB), finished_at_ms = :now, error = NULL, signature = NULL,
    free_at_ms = :now + coalesce(result_ttl_ms, :queue_ttl),
    expires_at_ms = CASE WHEN position NOT BETWEEN 1 AND @WITH_CHAIN - 1 OR result_ttl_ms IS NOT NULL
        THEN max(:now + max(coalesce(result_ttl_ms, :queue_ttl), :kept), coalesce(dedup_until_ms, 0)) END
FROM json_each(:results) AS entry
WHERE run = CAST(entry.key AS INTEGER);

-- :keys
SELECT json_group_object(run, hex(key)) FROM holdfast_job
WHERE run IN (SELECT value FROM json_each(:runs)) AND key IS NOT NULL;

-- :held
SELECT count(*), sum(attempts), count(chain), count(absorbed_to) FROM holdfast_job
WHERE run IN (SELECT value FROM json_each(:runs)) AND state = 'active' AND session = :session;
