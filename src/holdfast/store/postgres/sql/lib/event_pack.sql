-- Fast path of `append_events`, for the same event of many jobs that never failed and have no key: one row of the log for all of them.
-- test_postgres_fast_paths.py compares the two. Numbers in such a row follow each other, so that no two rows have numbers among each
-- other's: the order of rows is the order of events. Where another transaction drew one between them, each event has a row.

-- Append what a row says with its arrays, of which runs and ids are there; tasks, priorities, run_ats: NULL where all have that of the
-- row. Columns that the events of such jobs do not have are left out by the caller.
CREATE OR REPLACE FUNCTION holdfast.append_pack(e holdfast.event) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_numbers bigint[];
    v_packs boolean;
BEGIN
    e.span := cardinality(e.runs);
    e.priority := coalesce(e.priorities[1], 0);
    SELECT array_agg(nextval('holdfast.event_seq')), (SELECT value = 'on' FROM holdfast.meta WHERE name = 'packs')
    INTO v_numbers, v_packs FROM generate_series(1, e.span);
    IF v_packs AND e.span BETWEEN 2 AND @MOST_PACKED AND v_numbers[e.span] - v_numbers[1] = e.span - 1 THEN
        IF e.tasks = array_fill(e.tasks[1], ARRAY[e.span]) THEN
            e.task := e.tasks[1];
            e.tasks := NULL;
        END IF;
        IF e.priorities = array_fill(e.priority, ARRAY[e.span]) THEN
            e.priorities := NULL;
        ELSE
            e.priority := 0;
        END IF;
        IF e.run_ats = array_fill(e.run_ats[1], ARRAY[e.span]) THEN
            e.run_at_ms := e.run_ats[1];
            e.run_ats := NULL;
        END IF;
        INSERT INTO holdfast.event (seq, at_ms, queue, id, run, attempt, transition, state, cause, task, worker, priority, run_at_ms, span, runs,
            ids, tasks, priorities, run_ats, elapsed, payloads, envelopes)
        VALUES (v_numbers[e.span], e.at_ms, e.queue, '', e.runs[1], e.attempt, e.transition, e.state, e.cause, e.task, e.worker, e.priority,
            e.run_at_ms, e.span, e.runs, e.ids, e.tasks, e.priorities, e.run_ats, e.elapsed, e.payloads, e.envelopes);
    ELSE
        INSERT INTO holdfast.event (seq, at_ms, queue, id, run, attempt, transition, state, cause, task, worker, priority, run_at_ms, wait_ms,
            run_ms, payload, envelope)
        SELECT seq, e.at_ms, e.queue, id, run, e.attempt, e.transition, e.state, e.cause, CASE WHEN e.tasks IS NULL THEN e.task ELSE task END,
            e.worker, coalesce(priority, 0), coalesce(run_at, e.run_at_ms), CASE WHEN e.transition = 'claim' THEN elapsed END,
            CASE WHEN e.transition <> 'claim' THEN elapsed END, payload, envelope
        FROM unnest(v_numbers, e.runs, e.ids, e.tasks, e.priorities, e.run_ats, e.elapsed, e.payloads, e.envelopes)
            AS u(seq, run, id, task, priority, run_at, elapsed, payload, envelope);
    END IF;
END $$;

-- The events of a row of the log, each as a row of its own.
CREATE OR REPLACE FUNCTION holdfast.unpacked(e holdfast.event) RETURNS SETOF holdfast.event LANGUAGE sql STABLE AS $$
    SELECT e.xid, coalesce(e.seq - e.span + u.ord, e.seq), e.at_ms, coalesce(u.run, e.run), e.attempt, coalesce(u.priority, e.priority),
        e.failures, e.stalls, e.timeouts, e.releases, coalesce(u.run_at, e.run_at_ms),
        coalesce(e.wait_ms, CASE WHEN e.transition = 'claim' THEN u.elapsed END),
        coalesce(e.run_ms, CASE WHEN e.transition <> 'claim' THEN u.elapsed END), e.progress, e.queue, coalesce(u.id, e.id), e.transition,
        e.state, e.cause, coalesce(u.task, e.task), e.worker, e.key, e.error_type, e.error_signature, e.message,
        coalesce(u.payload, e.payload), coalesce(u.envelope, e.envelope), e.actor, NULL::integer, NULL::bigint[], NULL::text[],
        NULL::text[], NULL::integer[], NULL::bigint[], NULL::bigint[], NULL::bytea[], NULL::bytea[]
    FROM (SELECT 1) one LEFT JOIN LATERAL
        unnest(e.runs, e.ids, e.tasks, e.priorities, e.run_ats, e.elapsed, e.payloads, e.envelopes) WITH ORDINALITY
        AS u(run, id, task, priority, run_at, elapsed, payload, envelope, ord) ON true
$$;
