-- What could not be read, set aside: for `reap` to tell of it once, and for `doctor`. The newest 1,000 are kept.
CREATE TABLE holdfast.corrupt (
    number bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms  bigint  NOT NULL,
    kind   text    NOT NULL,
    queue  text    NOT NULL,
    id     text    NOT NULL,
    run    bigint  NOT NULL,
    detail text    NOT NULL,
    told   boolean NOT NULL DEFAULT false
);
CREATE INDEX corrupt_untold ON holdfast.corrupt (number) WHERE NOT told;
-- odd: what the row holds that we never write; NULL of every job that can be read, so that updates touch no index.
ALTER TABLE holdfast.job ADD COLUMN odd text GENERATED ALWAYS AS (CASE
    WHEN state NOT IN ('blocked', 'scheduled', 'waiting', 'active', 'completed', 'failed', 'cancelled') THEN 'state'
    WHEN chain_state NOT IN ('open', 'completed', 'failed', 'cancelled') THEN 'chain_state'
    WHEN least(run_at_ms, ready_at_ms, enqueued_at_ms, claimed_at_ms, finished_at_ms, free_at_ms, expires_at_ms,
            result_ttl_ms, dedup_until_ms, progressed_at_ms, ended_at_ms) < -9007199254740992
        OR greatest(run_at_ms, ready_at_ms, enqueued_at_ms, claimed_at_ms, finished_at_ms, free_at_ms, expires_at_ms,
            result_ttl_ms, dedup_until_ms, progressed_at_ms, ended_at_ms) > 9007199254740992 THEN 'an instant'
    WHEN least(attempts, failures, stalls, timeouts, releases, position, blockers) < 0
        OR greatest(attempts, failures, stalls, timeouts, releases, position, blockers) > 1000000000 THEN 'a counter'
    WHEN priority NOT BETWEEN -1000 AND 1000 THEN 'priority'
    WHEN jsonb_typeof(overrides) <> 'object' THEN 'overrides'
    WHEN on_blocker_failed NOT IN ('fail', 'cancel', 'ignore') THEN 'on_blocker_failed'
    END) STORED;
CREATE INDEX job_odd ON holdfast.job (run) WHERE odd IS NOT NULL;
CREATE INDEX blocker_odd ON holdfast.blocker (run)
    WHERE state NOT IN ('completed', 'failed', 'cancelled', 'abandoned') OR blocker IS NULL AND state IS NULL;
