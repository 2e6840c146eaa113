-- Workers, watchers of runs, handlers to be aborted, and answers to requests.

-- :register
INSERT INTO holdfast_session (queue, id, info, started_at_ms, heard_at_ms, expires_at_ms, address)
VALUES (:queue, :session, :info, :now, :now, :now + :lease, :address)
ON CONFLICT (queue, id) DO UPDATE SET info = excluded.info, started_at_ms = excluded.started_at_ms,
    heard_at_ms = excluded.heard_at_ms, expires_at_ms = excluded.expires_at_ms, address = excluded.address, dead = 0,
    parked = NULL, command = CASE WHEN dead = 0 THEN command END;

-- :alive
SELECT min(expires_at_ms), count(*), sum(parked IS NOT NULL), max(heard_at_ms)
FROM holdfast_session WHERE id = :session AND dead = 0;

-- What a worker is told: `stop` is the greater word.
-- :told
SELECT max(command) FROM holdfast_session WHERE id = :session AND dead = 0;

-- :tell
UPDATE holdfast_session SET command = :command WHERE id = :session AND dead = 0;

-- :at
SELECT min(queue), max(command) FROM holdfast_session WHERE id = :session AND dead = 0 AND expires_at_ms > :now;

-- :heard
SELECT max(value) FILTER (WHERE name = 'heard_at_ms'), max(value) FILTER (WHERE name = 'heard_lease_ms')
FROM holdfast_meta WHERE name IN ('heard_at_ms', 'heard_lease_ms');

-- :hear
INSERT OR REPLACE INTO holdfast_meta (name, value) VALUES ('heard_at_ms', :now), ('heard_lease_ms', :lease);

-- :shift
UPDATE holdfast_session SET expires_at_ms = expires_at_ms + :gap WHERE dead = 0;

-- :park
UPDATE holdfast_session SET parked = :room WHERE id = :session AND dead = 0;

-- :parked
SELECT id, parked, address FROM holdfast_session
WHERE queue = :queue AND parked IS NOT NULL ORDER BY heard_at_ms LIMIT :limit;

-- :leave
DELETE FROM holdfast_session WHERE id = :session;

-- :forget_aborts
DELETE FROM holdfast_abort WHERE session = :session;

-- :forget_abort
DELETE FROM holdfast_abort WHERE run = :run AND attempt = :attempt;

-- :address
SELECT address FROM holdfast_session WHERE id = :session AND address IS NOT NULL LIMIT 1;

-- :all
SELECT s.id, s.info, min(s.started_at_ms), max(s.heard_at_ms), min(s.expires_at_ms), max(s.dead),
    (SELECT count(*) FROM holdfast_job j WHERE j.state = 'active' AND j.session = s.id), max(s.memory_bytes),
    max(s.command)
FROM holdfast_session s GROUP BY s.id ORDER BY min(s.started_at_ms);

-- :serving
SELECT queue, count(*) FROM holdfast_session WHERE dead = 0 AND expires_at_ms > :now GROUP BY queue;

-- :held
SELECT run, queue FROM holdfast_job WHERE state = 'active' AND session = :session
    AND queue IN (SELECT queue FROM holdfast_session WHERE id = :session) ORDER BY run;

-- :watch
INSERT OR IGNORE INTO holdfast_watch (queue, id, run, address) VALUES (?, ?, ?, ?);

-- :unwatch
DELETE FROM holdfast_watch WHERE queue = :queue AND id = :id AND run = :run AND address = :address;

-- :watchers
DELETE FROM holdfast_watch WHERE queue = :queue AND id = :id AND run BETWEEN :first AND :last
RETURNING run, address;

-- :watchers_among
DELETE FROM holdfast_watch WHERE (queue, id, run) IN (
    SELECT job.queue, job.id, job.run
    FROM json_each(:runs) AS each CROSS JOIN holdfast_job AS job ON job.run = each.value)
RETURNING queue, id, run, address;

-- :watching
SELECT run, address FROM holdfast_watch WHERE queue = :queue AND id = :id AND run >= :run;

-- What is kept for as long anyway is not written again.
-- :keep_for_watchers
UPDATE holdfast_job SET expires_at_ms = :until
WHERE run IN (SELECT value FROM json_each(:runs)) AND expires_at_ms < :until;

-- :busy
SELECT EXISTS (SELECT 1 FROM holdfast_watch), EXISTS (SELECT 1 FROM holdfast_lane),
    EXISTS (SELECT 1 FROM holdfast_successor), EXISTS (SELECT 1 FROM holdfast_abort);

-- :answered
SELECT answer FROM holdfast_request WHERE id = :request;

-- :answer
INSERT INTO holdfast_request (id, at_ms, answer) VALUES (:request, :now, :answer);

-- :expire_now
UPDATE holdfast_session SET expires_at_ms = :now, parked = NULL WHERE id = :session;
