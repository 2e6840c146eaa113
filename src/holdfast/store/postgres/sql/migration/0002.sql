-- claimed_at_ms, last_run: when the claim was made, and the highest of its runs, where the rows of its jobs do not say that they are
-- claimed (`claim_deferred`); else NULL. A run is looked for from itself on, so that what older claims have left is not walked over.
ALTER TABLE holdfast.grip ADD COLUMN claimed_at_ms bigint, ADD COLUMN last_run bigint;
CREATE INDEX grip_deferred ON holdfast.grip (last_run) WHERE last_run IS NOT NULL;
CREATE INDEX grip_latest ON holdfast.grip (session, last_run) WHERE last_run IS NOT NULL;
-- A job is changed once, when it is completed: its page has room for that, and not for a version of each claim as well.
ALTER TABLE holdfast.job SET (fillfactor = 40);

-- The events of one call, of one queue and transition, may be one row (`append_pack`): `seq` is then the number of the last, `span` how
-- many they are, and the arrays have what is of each; an array that is NULL stands for the value that the row has for all.
-- elapsed: wait_ms of a claim, run_ms of a completion.
ALTER TABLE holdfast.event
    ADD COLUMN span integer, ADD COLUMN runs bigint[], ADD COLUMN ids text[], ADD COLUMN tasks text[], ADD COLUMN priorities integer[],
    ADD COLUMN run_ats bigint[], ADD COLUMN elapsed bigint[], ADD COLUMN payloads bytea[], ADD COLUMN envelopes bytea[];
ALTER TABLE holdfast.event SET (toast_tuple_target = 8160);  -- a turn's row is not compressed, which takes longer than all else about it
-- Clients of an older version cannot read such rows: a store that may have some gets none.
INSERT INTO holdfast.meta (name, value)
SELECT 'packs', CASE WHEN EXISTS (SELECT 1 FROM holdfast.queue) THEN 'off' ELSE 'on' END;
