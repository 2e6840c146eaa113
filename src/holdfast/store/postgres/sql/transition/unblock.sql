-- unblock: blocked -> waiting | scheduled
-- guard: its last open blocker is done
-- effects: raise run_at to now, append event, wake one worker

CREATE OR REPLACE FUNCTION holdfast.unblock(p_now bigint, j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_run_at bigint := greatest(j.run_at_ms, p_now);
BEGIN
    UPDATE holdfast.job SET state = CASE WHEN v_run_at > p_now THEN 'scheduled' ELSE 'waiting' END,
        run_at_ms = v_run_at, ready_at_ms = v_run_at
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, CASE WHEN v_run_at > p_now THEN 'scheduled' ELSE 'waiting' END);
    PERFORM holdfast.add_to_order(ARRAY[j.run]);
    PERFORM holdfast.append_events(p_now, 'unblock', ARRAY[j.run]);
    PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
    PERFORM holdfast.wake_for(p_now, j.queue, v_run_at);
END $$;
