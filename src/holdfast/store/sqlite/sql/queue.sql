-- Queues, their settings and the policies of their tasks.

-- :get
SELECT revision, version, declared, operator, turn, keyless_turn, tokens, tokens_at_ms
FROM holdfast_queue WHERE name = :queue;

-- :revision
SELECT revision FROM holdfast_queue WHERE name = :queue;

-- :revisions
SELECT group_concat(queue.revision) FROM json_each(:queues) AS each
CROSS JOIN holdfast_queue AS queue ON queue.name = each.value;

-- :create
INSERT OR IGNORE INTO holdfast_queue (name) VALUES (:queue);

-- :set
UPDATE holdfast_queue SET version = :version, declared = :declared, operator = :operator WHERE name = :queue;

-- :touch
UPDATE holdfast_queue SET revision = revision + 1 WHERE name = :queue;

-- :touch_all
UPDATE holdfast_queue SET revision = revision + 1;

-- :turn
SELECT turn, keyless_turn FROM holdfast_queue WHERE name = :queue;

-- :next_turn
UPDATE holdfast_queue SET turn = turn + 1 WHERE name = :queue RETURNING turn;

-- :next_turns
UPDATE holdfast_queue SET turn = turn + :count WHERE name = :queue RETURNING turn;

-- :turns
UPDATE holdfast_queue SET turn = :turn, keyless_turn = :keyless_turn WHERE name = :queue;

-- :tokens
UPDATE holdfast_queue SET tokens = :tokens, tokens_at_ms = :at WHERE name = :queue;

-- :policies
SELECT task, version, declared FROM holdfast_policy WHERE queue = :queue;

-- :put_policy
INSERT OR REPLACE INTO holdfast_policy (queue, task, version, declared) VALUES (:queue, :task, :version, :declared);

-- :adjustments
SELECT task, operator FROM holdfast_adjustment WHERE queue = :queue;

-- :adjust
INSERT OR REPLACE INTO holdfast_adjustment (queue, task, operator) VALUES (:queue, :task, :operator);

-- :clear_adjustment
DELETE FROM holdfast_adjustment WHERE queue = :queue AND task = :task;

-- :names
SELECT name FROM holdfast_queue ORDER BY name;

-- :number
UPDATE holdfast_meta SET value = value + :n WHERE name = 'run' RETURNING value;

-- :counts
SELECT queue, state, count FROM holdfast_tally;

-- :count
INSERT INTO holdfast_tally (queue, state, count) VALUES (?, ?, ?)
ON CONFLICT (queue, state) DO UPDATE SET count = count + excluded.count;

-- Counts that differ from the jobs: another program changed, lost or damaged records.
-- :miscounted
SELECT queue, state, sum(counted), sum(there) FROM (
    SELECT queue, state, count AS counted, 0 AS there FROM holdfast_tally
    UNION ALL SELECT queue, state, 0, count(*) FROM holdfast_job
    WHERE typeof(queue) = 'text' AND typeof(state) = 'text' GROUP BY queue, state)
GROUP BY queue, state HAVING sum(counted) <> sum(there) ORDER BY queue, state;

-- :uncount
DELETE FROM holdfast_tally;

-- :recount
INSERT INTO holdfast_tally (queue, state, count)
SELECT queue, state, count(*) FROM holdfast_job WHERE typeof(queue) = 'text' AND typeof(state) = 'text' GROUP BY queue, state;

-- The first of the next priority: what waits behind it is younger, or was given back.
-- :first_plain
SELECT priority, ready_at_ms FROM holdfast_job
WHERE queue = :queue AND state = 'waiting' AND key IS NULL AND company IS NULL AND priority < :below
ORDER BY priority DESC, run_at_ms, run LIMIT 1;

-- :first_suspect
SELECT priority, ready_at_ms FROM holdfast_job
WHERE queue = :queue AND state = 'waiting' AND company IS NOT NULL AND priority < :below
ORDER BY priority DESC, run_at_ms, run LIMIT 1;

-- :first_keyed
SELECT ready_at_ms FROM holdfast_job INDEXED BY holdfast_job_aged
WHERE queue = :queue AND state = 'waiting' AND key IS NOT NULL ORDER BY run_at_ms, run LIMIT 1;

-- :successors
SELECT count(*) FROM holdfast_successor WHERE queue = :queue;
