-- Schedules: written if they are as they were read, and looked up by when they are due.

-- :revision
SELECT revision FROM holdfast_schedule WHERE queue = :queue AND name = :schedule;

-- :put
INSERT OR REPLACE INTO holdfast_schedule (queue, name, revision, next_at_ms, body)
VALUES (:queue, :schedule, :revision, :next_at, :body);

-- :remove
DELETE FROM holdfast_schedule WHERE queue = :queue AND name = :schedule;

-- :get
SELECT queue, name, revision, next_at_ms, body FROM holdfast_schedule WHERE queue = :queue AND name = :schedule;

-- :found
SELECT queue, name, revision, next_at_ms, body FROM holdfast_schedule
WHERE (:queue IS NULL OR queue = :queue) AND (:schedule IS NULL OR name = :schedule) ORDER BY queue, name;

-- :due
SELECT queue, name, revision, next_at_ms, body FROM holdfast_schedule
WHERE queue = :queue AND next_at_ms <= :now ORDER BY next_at_ms LIMIT :limit;

-- :next
SELECT min(next_at_ms) FROM holdfast_schedule WHERE queue = :queue AND next_at_ms > :now;
