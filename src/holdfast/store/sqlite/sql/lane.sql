-- Keys that take turns: one lane for each key that has jobs.

-- :any
SELECT EXISTS (SELECT 1 FROM holdfast_lane WHERE queue = :queue);

-- :get
SELECT turn, ready, tokens, tokens_at_ms FROM holdfast_lane WHERE queue = :queue AND key = :key;

-- :waiting
SELECT EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND key = :key
    AND company IS NULL);

-- :active
SELECT count(*) FROM holdfast_job WHERE queue = :queue AND state = 'active' AND key = :key;

-- :limit
SELECT concurrency FROM holdfast_key_limit WHERE queue = :queue AND key = :key;

-- :put
INSERT OR REPLACE INTO holdfast_lane (queue, key, turn, ready, ready_at_ms, cooling, tokens, tokens_at_ms)
VALUES (:queue, :key, :turn, :ready, :ready_at, :cooling, :tokens, :tokens_at);

-- :refund
UPDATE holdfast_lane SET tokens = tokens + 1 WHERE queue = :queue AND key = :key;

-- :drop
DELETE FROM holdfast_lane WHERE queue = :queue AND key = :key;

-- :ready
SELECT key, turn FROM holdfast_lane WHERE queue = :queue AND ready = 1 ORDER BY turn LIMIT :limit;

-- :due
SELECT key FROM holdfast_lane WHERE queue = :queue AND ready_at_ms <= :now AND cooling = 0
ORDER BY ready_at_ms LIMIT :limit;

-- :cooled
SELECT key FROM holdfast_lane WHERE queue = :queue AND ready_at_ms <= :now AND cooling = 1
ORDER BY ready_at_ms LIMIT :limit;

-- :next
SELECT min(ready_at_ms) FROM holdfast_lane WHERE queue = :queue AND ready_at_ms IS NOT NULL AND cooling = 0;

-- :keys
SELECT key FROM holdfast_lane WHERE queue = :queue;

-- :with_jobs
SELECT DISTINCT queue, key FROM holdfast_job WHERE state IN ('waiting', 'active') AND key IS NOT NULL;

-- :set_limit
INSERT OR REPLACE INTO holdfast_key_limit (queue, key, concurrency) VALUES (:queue, :key, :concurrency);

-- :clear_limit
DELETE FROM holdfast_key_limit WHERE queue = :queue AND key = :key;

-- :limits
SELECT key, concurrency FROM holdfast_key_limit WHERE queue = :queue;
