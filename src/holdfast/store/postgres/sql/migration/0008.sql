-- Functions that take or give something else than before cannot be replaced: all are made anew after this.
DO $$
DECLARE
    f record;
BEGIN
    FOR f IN SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'holdfast.meta'::regclass)
    LOOP
        EXECUTE 'DROP FUNCTION ' || f.name || ' CASCADE';  -- with the trigger that calls one
    END LOOP;
END $$;

-- company: of a job that stalled, at most so many jobs may run where it is tried next, itself included; else NULL.
ALTER TABLE holdfast.job ADD COLUMN company integer;

-- The order of those that wait and are suspect, with a key or without; they have no place in `ready`.
CREATE TABLE holdfast.suspect (
    queue     text    NOT NULL,
    rank      integer NOT NULL,
    run_at_ms bigint  NOT NULL,
    run       bigint  NOT NULL,
    key       text,
    company   integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX suspect_order ON holdfast.suspect (queue, rank, run_at_ms, run);
