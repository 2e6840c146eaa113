-- No function is left in the schema: one that shall give something else than before cannot be replaced.
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
