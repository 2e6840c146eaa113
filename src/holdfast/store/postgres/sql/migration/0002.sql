-- Functions that take or give something else than before cannot be replaced: all are made anew after this.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'holdfast.meta'::regclass)
    LOOP
        EXECUTE 'DROP FUNCTION ' || f.name;
    END LOOP;
END $$;

-- chain: the run of its chain's first job, NULL for a job that neither continued nor continues another.
-- Of a first job that continued: chain_state (open, then how it ended), ended_at_ms, and tail, the run of the chain's
-- latest job. blockers: how many are open, NULL for a job that never had any.
ALTER TABLE holdfast.job
    ADD COLUMN chain             bigint,
    ADD COLUMN position          integer NOT NULL DEFAULT 0,
    ADD COLUMN chain_state       text,
    ADD COLUMN ended_at_ms       bigint,
    ADD COLUMN tail              bigint,
    ADD COLUMN blockers          integer,
    ADD COLUMN on_blocker_failed text;
CREATE INDEX job_chain ON holdfast.job (chain, position) WHERE chain IS NOT NULL;
CREATE INDEX job_chains ON holdfast.job (run) WHERE chain_state IS NOT NULL;

-- What a run waits for, or waited for, in order. blocker: the run of the chain's first job. state: NULL while it is
-- open; then how it ended, or `abandoned` when the run was over first. The outcome is copied here, so that the chain
-- itself may go.
CREATE TABLE holdfast.blocker (
    run        bigint  NOT NULL,
    place      integer NOT NULL,
    queue      text    NOT NULL,
    id         text    NOT NULL,
    blocker    bigint,
    state      text,
    last_queue text,
    last_task  text,
    error      bytea,
    result     bytea,
    PRIMARY KEY (run, place)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX blocker_open ON holdfast.blocker (blocker) WHERE state IS NULL;
