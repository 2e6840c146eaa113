-- promote: scheduled -> waiting
-- guard: its run_at has come, or somebody asks for it now
-- effects: take its place in the queue, append event

-- Jobs and lanes whose time has come may be claimed, a bounded number of them.
CREATE OR REPLACE FUNCTION holdfast.promote_due(p_now bigint, p_queue text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_runs bigint[];
    v_keys text[];
BEGIN
    WITH due AS MATERIALIZED (
        SELECT run FROM holdfast.job WHERE queue = p_queue AND due_at_ms <= p_now
        ORDER BY due_at_ms, run LIMIT @MOST_PROMOTED FOR UPDATE SKIP LOCKED
    ), moved AS (
        UPDATE holdfast.job j SET state = 'waiting', ready_at_ms = run_at_ms FROM due
        WHERE j.run = ANY (ARRAY[due.run])
        RETURNING j.run, j.key
    )
    SELECT array_agg(run), array_agg(DISTINCT key) FILTER (WHERE key IS NOT NULL) INTO v_runs, v_keys FROM moved;
    IF v_runs IS NOT NULL THEN
        PERFORM holdfast.count_move(p_queue, 'scheduled', 'waiting', cardinality(v_runs));
        PERFORM holdfast.add_to_order(v_runs);
        PERFORM holdfast.append_events(p_now, 'promote', v_runs);
        IF v_keys IS NOT NULL THEN
            PERFORM holdfast.refresh_keys(p_now, p_queue, v_keys);
        END IF;
    END IF;
END $$;

-- A scheduled job may be claimed now.
CREATE OR REPLACE FUNCTION holdfast.promote(p_clock bigint, p_queue text, p_id text, p_actor text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
BEGIN
    PERFORM holdfast.act_as(p_actor);
    PERFORM holdfast.lock_queues(ARRAY[p_queue]);
    j := holdfast.lock_answering(v_now, p_queue, p_id);
    IF j.run IS NULL THEN
        RETURN 'missing';
    ELSIF j.state <> 'scheduled' THEN
        RETURN 'wrong_state';
    END IF;
    UPDATE holdfast.job SET state = 'waiting', run_at_ms = v_now, ready_at_ms = v_now WHERE run = j.run;
    PERFORM holdfast.count_move(p_queue, 'scheduled', 'waiting');
    PERFORM holdfast.add_to_order(ARRAY[j.run]);
    PERFORM holdfast.append_events(v_now, 'promote', ARRAY[j.run], 'asked');
    PERFORM holdfast.refresh_lane(v_now, p_queue, j.key);
    PERFORM holdfast.wake(p_queue, 1);
    RETURN 'ok';
END $$;
