-- Queues, their settings and the policies of their tasks.

-- :get
SELECT revision, version, declared, operator, turn, keyless_turn, tokens, tokens_at_ms
FROM holdfast_queue WHERE name = :queue;

-- :revision
SELECT revision FROM holdfast_queue WHERE name = :queue;

-- :create
INSERT OR IGNORE INTO holdfast_queue (name) VALUES (:queue);

-- :declare
UPDATE holdfast_queue SET version = :version, declared = :declared, revision = revision + 1 WHERE name = :queue;

-- :operate
UPDATE holdfast_queue SET operator = :operator, revision = revision + 1 WHERE name = :queue;

-- :touch
UPDATE holdfast_queue SET revision = revision + 1 WHERE name = :queue;

-- :touch_all
UPDATE holdfast_queue SET revision = revision + 1;

-- :turn
SELECT turn, keyless_turn FROM holdfast_queue WHERE name = :queue;

-- :next_turn
UPDATE holdfast_queue SET turn = turn + 1 WHERE name = :queue RETURNING turn;

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
SELECT queue, state, count(*) FROM holdfast_job GROUP BY queue, state;

-- :oldest
SELECT min(ready_at_ms) FROM holdfast_job WHERE queue = :queue AND state = 'waiting';

-- :successors
SELECT count(*) FROM holdfast_successor WHERE queue = :queue;
