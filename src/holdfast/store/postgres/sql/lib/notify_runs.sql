-- Fast path of `notify_run`, for many runs, none of which absorbed another. test_postgres_fast_paths.py compares the two.

-- Notify the watchers of these runs of their ends: each listener gets as few messages as possible.
CREATE OR REPLACE FUNCTION holdfast.notify_runs(p_now bigint, p_runs bigint[], p_state text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    w record;
    v_address text;
    v_list text;
    v_told bigint[] := '{}';
BEGIN
    FOR w IN
        WITH gone AS (DELETE FROM holdfast.watch WHERE run = ANY (p_runs) RETURNING run, address, queue, id)
        SELECT run, address, json_build_array(queue, id, run, p_state)::text AS message FROM gone ORDER BY address, run
    LOOP
        v_told := v_told || w.run;
        IF w.address = v_address AND octet_length(v_list) + octet_length(w.message) < 7000 THEN
            v_list := v_list || ',' || w.message;
        ELSE
            PERFORM holdfast.send(v_address, '[' || v_list || ']');
            v_address := w.address;
            v_list := w.message;
        END IF;
    END LOOP;
    PERFORM holdfast.send(v_address, '[' || v_list || ']');
    UPDATE holdfast.job SET expires_at_ms = p_now + @KEPT_FOR_WATCHERS_MS WHERE run = ANY (v_told) AND expires_at_ms < p_now + @KEPT_FOR_WATCHERS_MS;
    IF FOUND THEN
        PERFORM holdfast.note_expiry(v_told);
    END IF;
END $$;
