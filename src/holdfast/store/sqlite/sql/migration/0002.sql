-- chain: the run of its chain's first job, NULL for a job that neither continued nor continues another.
-- Of a first job that continued: chain_state (open, then how it ended), ended_at_ms, and tail, the run of the chain's
-- latest job. blockers: how many are open, NULL for a job that never had any.
ALTER TABLE holdfast_job ADD COLUMN chain INTEGER;
ALTER TABLE holdfast_job ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE holdfast_job ADD COLUMN chain_state TEXT;
ALTER TABLE holdfast_job ADD COLUMN ended_at_ms INTEGER;
ALTER TABLE holdfast_job ADD COLUMN tail INTEGER;
ALTER TABLE holdfast_job ADD COLUMN blockers INTEGER;
ALTER TABLE holdfast_job ADD COLUMN on_blocker_failed TEXT;
CREATE INDEX holdfast_job_chain ON holdfast_job (chain, position) WHERE chain IS NOT NULL;
CREATE INDEX holdfast_job_chains ON holdfast_job (run) WHERE chain_state IS NOT NULL;

-- What a run waits for, or waited for, in order. blocker: the run of the chain's first job. state: NULL while it is
-- open; then how it ended, or `abandoned` when the run was over first. The outcome is copied here, so that the chain
-- itself may go.
CREATE TABLE holdfast_blocker (
    run        INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    queue      TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    blocker    INTEGER,
    state      TEXT,
    last_queue TEXT,
    last_task  TEXT,
    error      BLOB,
    result     BLOB,
    PRIMARY KEY (run, place)
) WITHOUT ROWID;
CREATE INDEX holdfast_blocker_open ON holdfast_blocker (blocker) WHERE state IS NULL;
