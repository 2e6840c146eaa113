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

-- The columns are those of `LaneView`, in its order.
-- :look_all
SELECT json_group_array(json_array(each.key,
    EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND key = each.value AND company IS NULL),
    (SELECT count(*) FROM holdfast_job WHERE queue = :queue AND state = 'active' AND key = each.value),
    (SELECT concurrency FROM holdfast_key_limit WHERE queue = :queue AND key = each.value),
    lane.turn, lane.ready, lane.tokens IS NULL AND lane.ready_at_ms IS NULL AND lane.cooling = 0))
FROM json_each(:keys) AS each LEFT JOIN holdfast_lane AS lane ON lane.queue = :queue AND lane.key = each.value;

-- :put_all
INSERT OR REPLACE INTO holdfast_lane (queue, key, turn, ready, ready_at_ms, cooling, tokens, tokens_at_ms)
SELECT :queue, json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'), NULL, 0, NULL, NULL
FROM json_each(:lanes);

-- :drop_all
DELETE FROM holdfast_lane WHERE queue = :queue AND key IN (SELECT value FROM json_each(:keys));

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

-- What follows is for those who look.

-- Keys among which a list chooses; those with active jobs, and those of the jobs that come first, however many there are.
-- :looked_at
SELECT key FROM (SELECT key FROM holdfast_lane WHERE queue = :queue ORDER BY key LIMIT :most)
UNION SELECT key FROM holdfast_job WHERE queue = :queue AND state = 'active' AND key IS NOT NULL AND :order = 'busiest'
UNION SELECT key FROM (SELECT key FROM holdfast_job INDEXED BY holdfast_job_aged
    WHERE queue = :queue AND state = 'waiting' AND key IS NOT NULL AND :order = 'starved' ORDER BY run_at_ms, run LIMIT :most);

-- One key; `most` bounds what is counted.
-- :look
SELECT :key,
    (SELECT count(*) FROM (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND key = :key
        AND company IS NULL LIMIT :most)),
    (SELECT count(*) FROM holdfast_job WHERE queue = :queue AND state = 'active' AND key = :key),
    (SELECT concurrency FROM holdfast_key_limit WHERE queue = :queue AND key = :key),
    l.ready_at_ms, coalesce(l.cooling, 0), l.tokens, l.tokens_at_ms,
    (SELECT ready_at_ms FROM holdfast_job WHERE queue = :queue AND state = 'waiting' AND key = :key AND company IS NULL
        ORDER BY priority DESC, run_at_ms, run LIMIT 1)
FROM (SELECT 1) LEFT JOIN holdfast_lane l ON l.queue = :queue AND l.key = :key;

-- :active_keys
SELECT key, count(*) FROM holdfast_job WHERE queue = :queue AND state = 'active' AND key IS NOT NULL GROUP BY key;

-- :first_scheduled
SELECT min(run_at_ms) FROM holdfast_job WHERE queue = :queue AND state = 'scheduled';
