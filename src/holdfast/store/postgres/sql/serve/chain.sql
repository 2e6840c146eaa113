-- Chains from outside: completed with a result, or deleted.

-- complete, from outside: the chain is over with this result, though a worker may have its current job. By its id, it is the
-- chain that the id stands for now: one that ended while it was waited for, and has a successor, is not the answer.
CREATE OR REPLACE FUNCTION holdfast.complete_chain(p_clock bigint, p_queue text, p_id text, p_run bigint,
    p_result bytea, p_ttl bigint, p_request text, p_actor text DEFAULT NULL) RETURNS text LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_answer jsonb;
    v_first bigint;
    v_reply text;
BEGIN
    PERFORM holdfast.act_as(p_actor);
    IF p_request IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.request ' || p_request, 0));
        SELECT other INTO v_answer FROM holdfast.request WHERE id = p_request;
        IF FOUND THEN
            RETURN v_answer ->> 'reply';
        END IF;
    END IF;
    v_first := holdfast.first_of_chain(v_now, p_queue, p_id, p_run);
    v_reply := holdfast.complete_current(v_now, v_first, p_result, p_ttl);
    IF v_reply <> 'ok' THEN
        PERFORM holdfast.check_chain(v_now, p_queue, p_id, p_run, v_first);
    END IF;
    IF p_request IS NOT NULL THEN
        INSERT INTO holdfast.request (id, at_ms, other) VALUES (p_request, v_now, jsonb_build_object('reply', v_reply));
    END IF;
    RETURN v_reply;
END $$;

CREATE OR REPLACE FUNCTION holdfast.complete_current(p_now bigint, p_first bigint, p_result bytea, p_ttl bigint)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    q holdfast.queue;
BEGIN
    SELECT * INTO j FROM holdfast.job WHERE run = (SELECT coalesce(f.tail, f.run) FROM holdfast.job f WHERE f.run = p_first);
    IF NOT FOUND THEN
        SELECT * INTO j FROM holdfast.job WHERE run = p_first;
        RETURN CASE WHEN FOUND THEN 'wrong_state' ELSE 'missing' END;  -- the last job of a chain that is over may be gone
    END IF;
    PERFORM holdfast.lock_queues(ARRAY[j.queue]);
    SELECT * INTO j FROM holdfast.job WHERE run = j.run FOR UPDATE;
    j := holdfast.write_current_row(j);
    IF j.run IS NULL OR j.run IS DISTINCT FROM (SELECT coalesce(tail, run) FROM holdfast.job WHERE run = p_first) THEN
        RAISE lock_not_available USING MESSAGE = 'the chain has just gone on, or is gone; try again';
    ELSIF j.state IN ('completed', 'failed', 'cancelled') THEN
        RETURN 'wrong_state';
    END IF;
    q := holdfast.ensure_queue(j.queue);
    PERFORM holdfast.drop_lease(j);
    UPDATE holdfast.job
    SET state = 'completed', exit = 'outside', result = p_result, finished_at_ms = p_now, error = NULL, error_signature = NULL,
        free_at_ms = p_now + coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms),
        expires_at_ms = CASE WHEN holdfast.expires_alone(position, coalesce(p_ttl, result_ttl_ms))
            THEN greatest(p_now + greatest(coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms),
                coalesce(q.completed_ms, 0)), coalesce(dedup_until_ms, 0)) END
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, 'completed');
    PERFORM holdfast.remove_from_order(j);
    PERFORM holdfast.note_expiry(ARRAY[j.run]);
    PERFORM holdfast.append_events(p_now, 'complete', ARRAY[j.run], 'outside', j.state = 'active');
    PERFORM holdfast.after_end(p_now, j, 'completed');
    PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
    IF j.state = 'active' THEN
        PERFORM holdfast.abort_handler(j, 'completed_elsewhere');
        PERFORM holdfast.wake(j.queue, 1);
    END IF;
    RETURN 'ok';
END $$;

-- Every job of the chain is gone; refused while a job outside waits for it, unless that goes too.
CREATE OR REPLACE FUNCTION holdfast.delete_chain(p_clock bigint, p_queue text, p_id text, p_run bigint,
    p_cascade boolean, p_actor text DEFAULT NULL, OUT v_reply text, OUT v_chains integer, OUT v_waiting jsonb) LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_first bigint := holdfast.first_of_chain(v_now, p_queue, p_id, p_run);
    v_firsts bigint[];
    v_runs bigint[];
    f holdfast.job;
BEGIN
    PERFORM holdfast.act_as(p_actor);
    v_reply := 'ok';
    v_chains := 0;
    IF v_first IS NULL THEN
        v_reply := 'missing';
        RETURN;
    END IF;
    v_runs := holdfast.jobs_of_chains(holdfast.waiting_chains(v_first, true));
    PERFORM holdfast.lock_queues(ARRAY(SELECT DISTINCT queue FROM holdfast.job WHERE run = ANY (v_runs)));
    v_firsts := holdfast.waiting_chains(v_first, p_cascade);
    PERFORM holdfast.lock_whole_chains(v_firsts);
    PERFORM holdfast.check_chain(v_now, p_queue, p_id, p_run, v_first);
    SELECT jsonb_agg(DISTINCT jsonb_build_array(j.queue, j.id, j.run)) INTO v_waiting
    FROM holdfast.blocker b JOIN holdfast.job j ON j.run = ANY (ARRAY[b.run]) WHERE b.blocker = v_first AND b.state IS NULL;
    IF v_waiting IS NOT NULL AND NOT p_cascade THEN
        v_reply := 'wrong_state';
        RETURN;
    END IF;
    FOR f IN SELECT * FROM holdfast.job WHERE run = ANY (v_firsts) ORDER BY run DESC LOOP
        PERFORM holdfast.delete_jobs_of_chain(v_now, f);
        v_chains := v_chains + 1;
    END LOOP;
END $$;

-- Every job of the chain is gone; dependants and watchers learn that it was cancelled.
-- A job with which it has just gone on is not waited for: the call is done again.
CREATE OR REPLACE FUNCTION holdfast.delete_jobs_of_chain(p_now bigint, f holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_runs bigint[] := holdfast.jobs_of_chains(ARRAY[f.run]);
BEGIN
    PERFORM 1 FROM holdfast.job WHERE run = ANY (v_runs) FOR UPDATE NOWAIT;
    PERFORM holdfast.write_current_rows(v_runs);
    PERFORM holdfast.resolve_blockers(p_now, ARRAY[f.run], true);
    FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (v_runs) ORDER BY run LOOP
        PERFORM holdfast.delete_run(p_now, j);
    END LOOP;
    IF holdfast.outcome(f) = 'active' THEN
        PERFORM holdfast.drop_successor(p_now, f, false);
    END IF;
END $$;
