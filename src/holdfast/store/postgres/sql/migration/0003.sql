-- Runs that are completed together and whose rows do not say so (`complete_deferred`): `block` is that of their runs, by which they are
-- found; session, claimed_at_ms, finished_at_ms and free_at_ms are of all of them, and at_ms is when they expire. results: of each, or one
-- of all. All are NULL in any other row.
ALTER TABLE holdfast.expiry ADD COLUMN block bigint, ADD COLUMN session text, ADD COLUMN claimed_at_ms bigint,
    ADD COLUMN finished_at_ms bigint, ADD COLUMN free_at_ms bigint, ADD COLUMN results bytea[];
ALTER TABLE holdfast.expiry SET (toast_tuple_target = 8160);
CREATE INDEX expiry_block ON holdfast.expiry (block) WHERE block IS NOT NULL;
-- Clients of an older version list such jobs as waiting: a store that may have some leaves none so. Where rows are seldom changed, their
-- pages are kept fuller.
INSERT INTO holdfast.meta (name, value)
SELECT 'deferred_ends', CASE WHEN EXISTS (SELECT 1 FROM holdfast.queue) THEN 'off' ELSE 'on' END;
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM holdfast.queue) THEN
        ALTER TABLE holdfast.job SET (fillfactor = 60);
    END IF;
END $$;

-- Jobs of one queue that were claimed together and are as they came in, on their way from the claim to its log and to its worker: arrays of
-- the same length. waits: how long each waited. envelopes: NULL where none has one. alike: nothing else is to be said of them.
CREATE TYPE holdfast.plain_claim AS (
    queue        text,
    runs         bigint[],
    ids          text[],
    tasks        text[],
    priorities   integer[],
    run_ats      bigint[],
    enqueued_ats bigint[],
    waits        bigint[],
    envelopes    bytea[],
    payloads     bytea[],
    alike        boolean
);
