-- progress: active -> active
-- guard: the caller holds the lease
-- effects: store progress and checkpoint, append at most one event a second

CREATE OR REPLACE FUNCTION holdfast.progress(p_clock bigint, p_session text, p_queue text, p_id text, p_run bigint,
    p_attempt integer, p_progress bytea, p_checkpoint bytea, p_fraction double precision, p_message text) RETURNS text
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
    w record;
BEGIN
    SELECT * INTO j FROM holdfast.job WHERE run = p_run FOR UPDATE;
    IF NOT FOUND OR j.queue <> p_queue OR j.id <> p_id THEN
        RETURN 'missing';
    END IF;
    j := holdfast.write_current_row(j);
    IF j.state <> 'active' OR j.session IS DISTINCT FROM p_session OR j.attempts <> p_attempt
        OR NOT EXISTS (SELECT 1 FROM holdfast.session WHERE id = p_session AND NOT dead) THEN
        RETURN 'stale';
    END IF;
    UPDATE holdfast.job SET progress = coalesce(p_progress, progress), checkpoint = coalesce(p_checkpoint, checkpoint)
    WHERE run = p_run;
    IF j.progressed_at_ms > v_now - @PROGRESS_EVENT_MS AND j.progressed_at_ms <= v_now THEN
        RETURN 'ok';
    END IF;
    UPDATE holdfast.job SET progressed_at_ms = v_now WHERE run = p_run;
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, worker, key, priority,
        run_at_ms, failures, stalls, timeouts, releases, progress, message)
    VALUES (v_now, j.queue, j.id, j.run, j.attempts, 'progress', j.state, j.task, j.session, j.key, j.priority,
        j.run_at_ms, j.failures, j.stalls, j.timeouts, j.releases, p_fraction, p_message);
    FOR w IN SELECT run, address FROM holdfast.watch WHERE run >= p_run AND queue = p_queue AND id = p_id LOOP
        PERFORM holdfast.send(w.address, json_build_array(json_build_array(p_queue, p_id, w.run, 'active'))::text);
    END LOOP;
    RETURN 'ok';
END $$;
