-- requeue: completed | failed | cancelled -> waiting | scheduled | blocked
-- guard: no other run holds the id
-- effects: number a new run with fresh counters, append event, wake one worker

-- Finished jobs run anew, oldest first, each as a new run of its id: [queue, id, run] of each.
CREATE OR REPLACE FUNCTION holdfast.requeue(p_clock bigint, p_queue text, p_states text[], p_task text, p_key text,
    p_ids text[], p_after bigint, p_until bigint, p_limit integer, p_dry boolean, p_request text,
    p_runs bigint[] DEFAULT NULL, p_actor text DEFAULT NULL) RETURNS jsonb
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_runs bigint[];
    v_queues text[];
    v_news bigint[];
    v_old bigint;
    v_done jsonb := '[]';
    v_run bigint;
    j holdfast.job;
    h holdfast.job;
BEGIN
    PERFORM holdfast.act_as(p_actor);
    IF p_request IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.request ' || p_request, 0));
        SELECT other INTO v_done FROM holdfast.request WHERE id = p_request;
        IF FOUND THEN
            RETURN v_done;
        END IF;
        v_done := '[]';
    END IF;
    SELECT array_agg(run), array_agg(DISTINCT queue) INTO v_runs, v_queues FROM (
        SELECT run, queue FROM holdfast.job t
        WHERE (p_queue IS NULL OR queue = p_queue) AND (state = ANY (p_states) OR state = 'waiting' AND attempts = 0
                AND 'completed' = ANY (p_states) AND EXISTS (SELECT 1 FROM holdfast.expiry x  -- see complete_deferred.sql
                    WHERE x.block = holdfast.block_of(t.run) AND t.run = ANY (x.runs) AND x.at_ms > v_now OFFSET 0)) AND (p_task IS NULL OR task = p_task)
            AND (p_key IS NULL OR key = p_key) AND (p_ids IS NULL OR id = ANY (p_ids))
            AND (p_after IS NULL OR enqueued_at_ms >= p_after) AND (p_until IS NULL OR enqueued_at_ms < p_until)
            AND (expires_at_ms IS NULL OR expires_at_ms > v_now) AND requeued_as IS NULL
            AND chain_state IS DISTINCT FROM 'open' AND (p_runs IS NULL OR run = ANY (p_runs))
        ORDER BY run DESC LIMIT p_limit) found;
    IF v_runs IS NOT NULL THEN
        PERFORM holdfast.lock_queues(holdfast.queues_reached(v_queues, v_runs, NULL));  -- where chains began that go on again, too
        v_runs := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (v_runs) AND state = ANY (p_states || 'waiting'::text)
            AND requeued_as IS NULL AND chain_state IS DISTINCT FROM 'open' ORDER BY run FOR UPDATE);
        PERFORM holdfast.write_current_rows(v_runs);
        v_runs := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (v_runs) AND state = ANY (p_states) ORDER BY run);
        v_news := ARRAY(SELECT nextval('holdfast.run') FROM generate_series(1, cardinality(v_runs)));
        FOR v_old IN SELECT run FROM holdfast.job WHERE run = ANY (v_runs) ORDER BY queue, id COLLATE "C", run  -- as `enqueue` goes
        LOOP
            SELECT * INTO j FROM holdfast.job WHERE run = v_old;
            CONTINUE WHEN j.chain_state = 'open' OR EXISTS (SELECT 1 FROM holdfast.job o
                WHERE o.queue = j.queue AND o.id = j.id AND o.held AND o.run <> j.run
                AND ((holdfast.current_row(o)).finished_at_ms IS NULL OR o.chain_state = 'open'));  -- not waited for: its transaction may wait for one of these
            h := holdfast.lock_holder(v_now, j.queue, j.id);
            CONTINUE WHEN h.run <> j.run OR j.position > 0 AND NOT EXISTS (
                SELECT 1 FROM holdfast.job f WHERE f.run = j.chain AND f.tail = j.run);  -- a fork would have two ends
            v_run := CASE WHEN p_dry THEN j.run
                ELSE holdfast.requeue_run(v_now, j, v_news[array_position(v_runs, j.run)]) END;
            v_done := v_done || jsonb_build_array(jsonb_build_array(j.queue, j.id, v_run));
        END LOOP;
        v_done := coalesce((SELECT jsonb_agg(value ORDER BY (value ->> 2)::bigint) FROM jsonb_array_elements(v_done)), '[]');
    END IF;
    IF p_request IS NOT NULL THEN
        INSERT INTO holdfast.request (id, at_ms, other) VALUES (p_request, v_now, v_done);
    END IF;
    RETURN v_done;
END $$;

-- p_run: the new run's number. They are given by age, and not in the order of ids, in which the runs are made.
CREATE OR REPLACE FUNCTION holdfast.requeue_run(p_now bigint, j holdfast.job, p_run bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    s holdfast.successor;
    v_open integer;
    v_failed text[];
BEGIN
    s.queue := j.queue; s.id := j.id; s.run := p_run; s.task := j.task; s.priority := j.priority; s.key := j.key;
    s.run_at_ms := p_now; s.enqueued_at_ms := p_now; s.result_ttl_ms := j.result_ttl_ms; s.dedup_key := j.dedup_key;
    s.overrides := j.overrides; s.envelope := j.envelope; s.payload := j.payload;
    UPDATE holdfast.job SET held = false, requeued_as = s.run WHERE run = j.run;
    IF j.position > 0 THEN
        UPDATE holdfast.job SET chain_state = 'open', ended_at_ms = NULL, free_at_ms = NULL, expires_at_ms = NULL,
            result = NULL, error = NULL
        WHERE run = j.chain;
    END IF;
    IF j.blockers IS NOT NULL THEN
        SELECT w.v_open, w.v_failed INTO v_open, v_failed
        FROM holdfast.copy_blockers(p_now, j.run, s.run, j.on_blocker_failed) w;
    END IF;
    IF NOT holdfast.insert_run(p_now, s, 'requeue', NULL, CASE WHEN j.position > 0 THEN j.chain END, j.position, v_open,
        v_failed, j.on_blocker_failed) THEN
        RAISE lock_not_available USING MESSAGE = 'another call enqueued the id in the meantime; try again';
    END IF;
    PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
    PERFORM holdfast.wake(j.queue, 1);
    RETURN s.run;
END $$;
