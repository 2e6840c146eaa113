-- The entry point of a caller that waits for a run.

-- The listener hears when the run ends. False: it has ended already, or is not there.
CREATE OR REPLACE FUNCTION holdfast.watch(p_clock bigint, p_queue text, p_id text, p_run bigint, p_address text)
RETURNS boolean LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_found boolean;
BEGIN
    v_found := holdfast.lock_unfinished(v_now, p_queue, p_id, p_run);
    IF NOT v_found THEN
        PERFORM 1 FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held FOR NO KEY UPDATE;
        v_found := EXISTS (SELECT 1 FROM holdfast.successor WHERE queue = p_queue AND id = p_id AND run = p_run)
            OR holdfast.lock_unfinished(v_now, p_queue, p_id, p_run);  -- it started while the holder's end was awaited
    END IF;
    IF v_found THEN
        INSERT INTO holdfast.watch (run, address, queue, id) VALUES (p_run, p_address, p_queue, p_id)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN v_found;
END $$;
