-- cancel: blocked | scheduled | waiting -> cancelled
-- guard: the run has not started; an active one is refused or signalled
-- effects: free the id, end the chain, drop the successor, append event, tell waiters

-- Job and successor are over, or the active job is left or signalled.
CREATE OR REPLACE FUNCTION holdfast.cancel(p_clock bigint, p_queue text, p_id text, p_running text, p_request text,
    p_actor text DEFAULT NULL)
RETURNS jsonb LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
    c holdfast.job;
    v_reply text := 'wrong_state';
    v_successor boolean;
    v_answer jsonb;
BEGIN
    PERFORM holdfast.act_as(p_actor);
    IF p_request IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.request ' || p_request, 0));
        SELECT other INTO v_answer FROM holdfast.request WHERE id = p_request;
        IF FOUND THEN
            RETURN v_answer;
        END IF;
    END IF;
    SELECT * INTO c FROM holdfast.job WHERE run = (SELECT f.tail FROM holdfast.job f
        WHERE f.queue = p_queue AND f.id = p_id AND f.held AND f.chain_state = 'open');  -- the current job of its chain is meant
    PERFORM holdfast.lock_queues(ARRAY[p_queue, coalesce(c.queue, p_queue)]);
    SELECT * INTO c FROM holdfast.job WHERE run = c.run FOR UPDATE;
    j := holdfast.lock_answering(v_now, p_queue, p_id);
    IF j.run IS NULL THEN
        v_answer := '{"reply": "missing"}';
    ELSE
        v_successor := holdfast.drop_successor(v_now, j, true);
        IF j.chain_state = 'open' AND j.tail IS DISTINCT FROM c.run THEN  -- it has just gone on
            SELECT * INTO c FROM holdfast.job WHERE run = j.tail FOR UPDATE NOWAIT;
        END IF;
        IF j.chain_state = 'open' AND c.run IS NOT NULL THEN
            j := c;
        END IF;
        IF j.state = 'active' THEN
            IF p_running <> 'refuse' THEN
                UPDATE holdfast.job SET cancel = true WHERE run = j.run;
                PERFORM holdfast.append_action(v_now, j.queue, jsonb_build_object('name', 'cancel', 'id', j.id, 'run', j.run,
                    'message', jsonb_build_object('running', p_running)::text, 'actor', p_actor));
                PERFORM holdfast.abort_handler(j, CASE p_running WHEN 'kill' THEN 'killed' ELSE 'cancelled' END);
                v_reply := 'ok';
            END IF;
        ELSIF j.state IN ('blocked', 'scheduled', 'waiting') THEN
            v_reply := 'ok';
            PERFORM holdfast.cancel_run(v_now, j, coalesce(j.exit, 'cancel'), false);
            PERFORM holdfast.refresh_lane(v_now, j.queue, j.key);
        END IF;
        v_answer := jsonb_build_object('reply', CASE WHEN v_successor THEN 'ok' ELSE v_reply END, 'state', j.state, 'run', j.run,
            'signalled', j.state = 'active' AND p_running <> 'refuse', 'successor', v_successor);
    END IF;
    IF p_request IS NOT NULL THEN
        INSERT INTO holdfast.request (id, at_ms, other) VALUES (p_request, v_now, v_answer);
    END IF;
    RETURN v_answer;
END $$;

-- The run is over and its id free.
CREATE OR REPLACE FUNCTION holdfast.cancel_run(p_now bigint, j holdfast.job, p_exit text, p_ran boolean,
    p_cause text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue := holdfast.ensure_queue(j.queue);
BEGIN
    UPDATE holdfast.job
    SET state = 'cancelled', exit = p_exit, held = false, finished_at_ms = p_now, free_at_ms = p_now,
        expires_at_ms = CASE WHEN holdfast.expires_alone(position, result_ttl_ms)
            THEN greatest(p_now + coalesce(result_ttl_ms, q.result_ttl_ms), coalesce(dedup_until_ms, 0)) END
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, 'cancelled');
    PERFORM holdfast.remove_from_order(j);
    PERFORM holdfast.note_expiry(ARRAY[j.run]);
    PERFORM holdfast.append_events(p_now, 'cancel', ARRAY[j.run], CASE WHEN p_ran THEN p_exit ELSE p_cause END, p_ran);
    PERFORM holdfast.after_end(p_now, j, 'cancelled');
    RETURN 'cancelled';
END $$;

-- A successor that is cancelled is a cancelled run of its own. A run that does not hold the id has none, see `start_successor`.
CREATE OR REPLACE FUNCTION holdfast.drop_successor(p_now bigint, j holdfast.job, p_note boolean) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    s holdfast.successor;
BEGIN
    IF NOT j.held THEN
        RETURN false;
    END IF;
    DELETE FROM holdfast.successor WHERE queue = j.queue AND id = j.id RETURNING * INTO s;
    IF s.run IS NULL THEN
        RETURN false;
    END IF;
    IF p_note THEN
        INSERT INTO holdfast.job (run, queue, id, state, held, task, priority, key, run_at_ms, ready_at_ms,
            enqueued_at_ms, finished_at_ms, free_at_ms, expires_at_ms, exit, result_ttl_ms, overrides, envelope, payload)
        VALUES (s.run, s.queue, s.id, 'cancelled', false, s.task, s.priority, s.key, s.run_at_ms, s.run_at_ms,
            s.enqueued_at_ms, p_now, p_now,
            p_now + coalesce(s.result_ttl_ms, (holdfast.ensure_queue(s.queue)).result_ttl_ms), 'cancel', s.result_ttl_ms,
            s.overrides, s.envelope, s.payload);
        PERFORM holdfast.count_move(s.queue, NULL, 'cancelled');
        PERFORM holdfast.note_expiry(ARRAY[s.run]);
        PERFORM holdfast.append_events(p_now, 'cancel', ARRAY[s.run], 'successor');
    END IF;
    PERFORM holdfast.resolve_blockers(p_now, ARRAY[s.run], true);
    PERFORM holdfast.notify_run(p_now, j.queue, j.id, s.run, s.run, 'cancelled');
    RETURN true;
END $$;
