-- Fast path of `enqueue`, for jobs that wait at once and whose ids are new, or so the caller thinks.
-- test_postgres_fast_paths.py compares the two.

-- Jobs with new ids, no key and nothing to wait for. So nothing is looked up, and
-- the answer is no more than the runs' numbers, in the order given. A call that is repeated, because its reply was lost, or
-- has an id that is there, ends with unique_violation and changes nothing: `enqueue` then says what is there.
-- Ids that were not made for this call come in their own order, as they do in `enqueue`, so that no two calls wait for
-- each other in a circle; p_places then says in which place each was given, by which the runs are numbered.
CREATE OR REPLACE FUNCTION holdfast.enqueue_fresh(p_clock bigint, p_queue text, p_ids text[], p_task text,
    p_tasks text[], p_payloads bytea[], p_priorities integer[], p_envelopes bytea[], p_overrides text[], p_ttls bigint[],
    p_watchers text[], p_places integer[])
RETURNS bigint[] LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    q holdfast.queue := holdfast.ensure_queue(p_queue);
    v_runs bigint[] := ARRAY(SELECT nextval('holdfast.run') FROM generate_series(1, cardinality(p_ids)));
    e holdfast.event;
BEGIN
    IF p_places IS NOT NULL THEN
        v_runs := ARRAY(SELECT v_runs[place + 1] FROM unnest(p_places) WITH ORDINALITY AS t(place, ord) ORDER BY ord);
    END IF;
    WITH counted AS (
        INSERT INTO holdfast.move (queue, state, count) VALUES (p_queue, 'waiting', cardinality(p_ids))
    )
    INSERT INTO holdfast.job (run, queue, id, state, task, priority, run_at_ms, ready_at_ms, enqueued_at_ms,
        result_ttl_ms, overrides, envelope, payload)
    SELECT run, p_queue, id, 'waiting', coalesce(p_task, task), coalesce(priority, 0), v_now, v_now, v_now, ttl,
        overrides::jsonb, envelope, payload
    FROM unnest(v_runs, p_ids, p_tasks, p_payloads, p_priorities, p_envelopes, p_overrides, p_ttls)
        AS t(run, id, task, payload, priority, envelope, overrides, ttl);
    INSERT INTO holdfast.ready (queue, rank, run_at_ms, run)
    SELECT p_queue, -coalesce(priority, 0), v_now, run FROM unnest(v_runs, p_priorities) AS t(run, priority);
    e.at_ms := v_now; e.queue := p_queue; e.transition := 'enqueue'; e.state := 'waiting'; e.attempt := 0; e.task := p_task;
    e.run_at_ms := v_now; e.runs := v_runs; e.ids := p_ids; e.priorities := p_priorities; e.envelopes := p_envelopes;
    IF p_task IS NULL THEN
        e.tasks := p_tasks;
    END IF;
    IF q.payloads THEN
        e.payloads := p_payloads;
    END IF;
    IF p_places IS NOT NULL THEN  -- events are in the order of runs
        SELECT array_agg(run), array_agg(id), CASE WHEN e.tasks IS NOT NULL THEN array_agg(task) END,
            CASE WHEN e.payloads IS NOT NULL THEN array_agg(payload) END,
            CASE WHEN e.priorities IS NOT NULL THEN array_agg(priority) END,
            CASE WHEN e.envelopes IS NOT NULL THEN array_agg(envelope) END
        INTO e.runs, e.ids, e.tasks, e.payloads, e.priorities, e.envelopes
        FROM (SELECT * FROM unnest(e.runs, e.ids, e.tasks, e.payloads, e.priorities, e.envelopes)
            AS t(run, id, task, payload, priority, envelope) ORDER BY run) s;
    END IF;
    PERFORM holdfast.append_pack(e);
    IF EXISTS (SELECT 1 FROM holdfast.front) THEN  -- a claim must not begin behind one of them
        DELETE FROM holdfast.front f WHERE f.queue = p_queue AND (f.rank, f.run_at_ms, f.run) > (
            SELECT -coalesce(max(priority), 0), v_now, min(run) FROM unnest(v_runs, p_priorities) AS t(run, priority));
    END IF;
    IF p_watchers IS NOT NULL THEN
        INSERT INTO holdfast.watch (run, address, queue, id)
        SELECT run, address, p_queue, id FROM unnest(v_runs, p_watchers, p_ids) AS t(run, address, id)
        WHERE address IS NOT NULL;
    END IF;
    PERFORM holdfast.wake(p_queue, cardinality(v_runs));
    RETURN v_runs;
END $$;
