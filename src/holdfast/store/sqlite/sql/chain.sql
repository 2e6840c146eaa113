-- Chains: what the first job's row says of all of them. A later job, before position WITH_CHAIN and without a TTL of its own,
-- goes with its chain: here and wherever else a run ends, its `expires_at_ms` is NULL.

-- :continue_all
UPDATE holdfast_job
SET state = 'completed', exit = 'complete', finished_at_ms = :now, error = NULL, signature = NULL, chain = coalesce(chain, run),
    chain_state = CASE WHEN position = 0 THEN 'open' END,
    free_at_ms = CASE WHEN position > 0 THEN :now + coalesce(result_ttl_ms, :queue_ttl) END,
    expires_at_ms = CASE WHEN position >= @WITH_CHAIN OR position > 0 AND result_ttl_ms IS NOT NULL
        THEN :now + max(coalesce(result_ttl_ms, :queue_ttl), :kept) END
WHERE run IN (SELECT value FROM json_each(:runs));

-- :places
SELECT json_group_array(json_array(run, coalesce(chain, run), position))
FROM holdfast_job WHERE run IN (SELECT value FROM json_each(:runs));

-- :members_among
SELECT run FROM holdfast_job WHERE run IN (SELECT value FROM json_each(:runs)) AND position > 0;

-- :move
UPDATE holdfast_job SET tail = CAST(entry.value AS INTEGER)
FROM json_each(:tails) AS entry WHERE run = CAST(entry.key AS INTEGER);

-- :reopen
UPDATE holdfast_job
SET chain_state = 'open', tail = :tail, ended_at_ms = NULL, free_at_ms = NULL, expires_at_ms = NULL, result = NULL,
    error = NULL
WHERE run = :run;

-- :end
UPDATE holdfast_job
SET chain_state = :state, ended_at_ms = :now, held = CASE WHEN :state = 'cancelled' THEN 0 ELSE held END,
    result = (SELECT t.result FROM holdfast_job t WHERE t.run = :tail),
    error = (SELECT t.error FROM holdfast_job t WHERE t.run = :tail AND :state = 'failed'),
    free_at_ms = CASE WHEN :state = 'cancelled' THEN :now ELSE :now + coalesce(result_ttl_ms, :queue_ttl) END,
    expires_at_ms = max(:now + max(coalesce(result_ttl_ms, :queue_ttl), :kept), coalesce(dedup_until_ms, 0))
WHERE run = :run AND chain_state = 'open';

-- :orphan
UPDATE holdfast_job SET expires_at_ms = :now + coalesce(result_ttl_ms, :queue_ttl)
WHERE chain = :chain AND expires_at_ms IS NULL AND state IN ('completed', 'failed', 'cancelled');

-- :ref
SELECT queue, id, run FROM holdfast_job WHERE run = :run;

-- :members
SELECT * FROM holdfast_job WHERE chain = :run OR run = :run ORDER BY position;

-- :others
SELECT run FROM holdfast_job WHERE chain IN (SELECT value FROM json_each(:runs)) AND position > 0
ORDER BY run LIMIT :limit;

-- :list
SELECT j.* FROM holdfast_job j LEFT JOIN holdfast_job t ON t.run = j.tail
WHERE j.run < :before AND j.chain_state IS NOT NULL
    AND (:queue IS NULL OR j.queue = :queue)
    AND (:states IS NULL OR (CASE WHEN j.chain_state = 'open' THEN t.state ELSE j.chain_state END)
        IN (SELECT value FROM json_each(:states)))
    AND (:task IS NULL OR j.task = :task)
    AND (:key IS NULL OR j.key = :key)
    AND (:ids IS NULL OR j.id IN (SELECT value FROM json_each(:ids)))
    AND (:after IS NULL OR j.enqueued_at_ms >= :after)
    AND (:until IS NULL OR j.enqueued_at_ms < :until)
    AND (j.expires_at_ms IS NULL OR j.expires_at_ms > :now)
ORDER BY j.run DESC LIMIT :limit;
