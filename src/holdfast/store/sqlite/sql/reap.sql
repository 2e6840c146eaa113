-- reap: active -> waiting
-- guard: the holder's session has expired
-- effects: drop lease, count the stall (at its limit, if it was alone: fail), keep its place, make it suspect, merge the successor, append event

-- :cut_back
-- No lease ends later than a whole lease from now, unless the clock was set back since it was given.
UPDATE holdfast_session SET expires_at_ms = :now + coalesce(json_extract(CAST(info AS TEXT), '$.lease_ms'), @DEFAULT_LEASE_MS)
WHERE queue = :queue AND dead = 0
    AND expires_at_ms > :now + coalesce(json_extract(CAST(info AS TEXT), '$.lease_ms'), @DEFAULT_LEASE_MS);

-- :declare_dead
UPDATE holdfast_session SET dead = 1, parked = NULL
WHERE queue = :queue AND dead = 0 AND expires_at_ms <= :now AND id <> :but;

-- :dead
-- A session whose record is gone is as dead as one that was declared so.
SELECT id FROM holdfast_session WHERE queue = :queue AND dead = 1 AND id <> :but
UNION
SELECT session FROM holdfast_job WHERE queue = :queue AND state = 'active' AND session <> :but
    AND session NOT IN (SELECT id FROM holdfast_session WHERE queue = :queue);

-- :next
SELECT min(expires_at_ms) - :now FROM holdfast_session
WHERE queue = :queue AND dead = 0 AND id <> :but AND typeof(expires_at_ms) = 'integer';

-- :held
SELECT * FROM holdfast_job WHERE queue = :queue AND state = 'active'
    AND session NOT IN (SELECT id FROM holdfast_session WHERE queue = :queue AND dead = 0) AND session <> :but
ORDER BY run LIMIT :limit;

-- :slots
SELECT coalesce(max(json_extract(CAST(info AS TEXT), '$.slots')), 2) FROM holdfast_session
WHERE queue = :queue AND id = :session AND json_valid(CAST(info AS TEXT));

-- :put_back
UPDATE holdfast_job SET state = 'waiting', exit = 'reap', ready_at_ms = :now, stalls = :stalls, error = :error, signature = :signature,
    company = :company
WHERE run = :run;

-- :forget
DELETE FROM holdfast_session WHERE queue = :queue AND dead = 1 AND id NOT IN (
    SELECT session FROM holdfast_job WHERE queue = :queue AND state = 'active');

-- :forget_aborts
DELETE FROM holdfast_abort WHERE session NOT IN (SELECT id FROM holdfast_session);
