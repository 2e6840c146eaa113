-- What could not be read, set aside: for `reap` to tell of it once, and for `doctor`. The newest 1,000 are kept.
CREATE TABLE holdfast_corrupt (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    queue  TEXT    NOT NULL,
    id     TEXT    NOT NULL,
    run    INTEGER NOT NULL,
    detail TEXT    NOT NULL,
    told   INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX holdfast_corrupt_untold ON holdfast_corrupt (number) WHERE told = 0;
-- Rows that no call stumbles on, and that `reap` must find: jobs in a state that there is not, and whatever hides jobs
-- when it holds what we never write (the conditions are those of `column.odd_type`).
CREATE INDEX holdfast_job_stateless ON holdfast_job (run)
    WHERE state NOT IN ('blocked', 'scheduled', 'waiting', 'active', 'completed', 'failed', 'cancelled');
CREATE INDEX holdfast_lane_odd ON holdfast_lane (queue)
    WHERE (typeof(queue) <> 'text')
        OR (typeof(key) <> 'text')
        OR (typeof(turn) <> 'integer' OR turn NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(ready) <> 'integer' OR ready NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (ready_at_ms IS NOT NULL AND (typeof(ready_at_ms) <> 'integer' OR ready_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992))
        OR (typeof(cooling) <> 'integer' OR cooling NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (tokens IS NOT NULL AND (typeof(tokens) NOT IN ('real', 'integer') OR abs(tokens) > 1e300))
        OR (tokens_at_ms IS NOT NULL AND (typeof(tokens_at_ms) <> 'integer' OR tokens_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992));
CREATE INDEX holdfast_key_limit_odd ON holdfast_key_limit (queue)
    WHERE (typeof(queue) <> 'text')
        OR (typeof(key) <> 'text')
        OR (typeof(concurrency) <> 'integer' OR concurrency NOT BETWEEN -9007199254740992 AND 9007199254740992);
CREATE INDEX holdfast_session_odd ON holdfast_session (queue)
    WHERE (typeof(queue) <> 'text')
        OR (typeof(id) <> 'text')
        OR (typeof(info) NOT IN ('blob', 'text'))
        OR (typeof(started_at_ms) <> 'integer' OR started_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(heard_at_ms) <> 'integer' OR heard_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(expires_at_ms) <> 'integer' OR expires_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(dead) <> 'integer' OR dead NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (parked IS NOT NULL AND (typeof(parked) <> 'integer' OR parked NOT BETWEEN -9007199254740992 AND 9007199254740992))
        OR (address IS NOT NULL AND (typeof(address) <> 'text'));
CREATE INDEX holdfast_blocker_odd ON holdfast_blocker (queue)
    WHERE (typeof(run) <> 'integer' OR run NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(place) <> 'integer' OR place NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(queue) <> 'text')
        OR (typeof(id) <> 'text')
        OR (blocker IS NOT NULL AND (typeof(blocker) <> 'integer' OR blocker NOT BETWEEN -9007199254740992 AND 9007199254740992))
        OR (state IS NOT NULL AND (typeof(state) <> 'text' OR state NOT IN ('blocked', 'scheduled', 'waiting', 'active', 'completed', 'failed', 'cancelled', 'abandoned')))
        OR (last_queue IS NOT NULL AND (typeof(last_queue) <> 'text'))
        OR (last_task IS NOT NULL AND (typeof(last_task) <> 'text'))
        OR (error IS NOT NULL AND (typeof(error) <> 'blob'))
        OR (result IS NOT NULL AND (typeof(result) <> 'blob'))
        OR (blocker IS NULL AND state IS NULL);
