-- The entry point of a worker: everything that has ended is settled, then jobs are claimed for the room there is.

-- What a worker calls. The last row's `info` is about the turn as a whole; the others are the claimed jobs, one or, with arrays, many that
-- are alike: what is not in an array is the same for all of them. timeouts: NULL where no task has one.
-- p_lease, p_serves: of the session. p_kinds: the transition of each settlement; NULL: every one is a completion. p_data: results,
-- or errors. p_run_ats, p_delays: when a job runs again, where that was said. p_companies: of a stall, how many jobs ran there.
-- p_nexts: the next jobs of chains. p_queues, p_room: where to claim, and how many. p_held: how many jobs the worker holds.
-- p_lock_all: a first try found out too late which queues have to be locked, so now all are that may have to be.
-- Beginning a statement costs 15 µs and more: so functions are called by assignment, which is none, and questions go together.
CREATE OR REPLACE FUNCTION holdfast.take_turn(
    p_clock         bigint,
    p_session       text,
    p_lease         bigint,
    p_serves        text[],
    p_kinds         text[],
    p_s_queues      text[],
    p_s_ids         text[],
    p_s_runs        bigint[],
    p_s_attempts    integer[],
    p_data          bytea[],
    p_ttls          bigint[],
    p_run_ats       bigint[],
    p_delays        bigint[],
    p_causes        text[],
    p_companies     integer[],
    p_error_types   text[],
    p_signatures    text[],
    p_nexts         text[],
    p_queues        text[],
    p_room          integer,
    p_park          boolean,
    p_held          integer,
    p_only_suspects boolean,
    p_lock_all      boolean,
    p_arrays        boolean)
RETURNS TABLE (info text, queue text, id text, run bigint, attempts integer, task text, priority integer, key text,
    run_at_ms bigint, enqueued_at_ms bigint, failures integer, stalls integer, timed_out integer, releases integer,
    overrides text, envelope bytea, error bytea, checkpoint bytea, payload bytea, timeout_ms bigint,
    chain_queue text, chain_id text, chain bigint, place integer, company integer, snoozes integer, spared integer,
    runs bigint[], ids text[], tasks text[], priorities integer[], run_ats bigint[], enqueued_ats bigint[], envelopes bytea[],
    payloads bytea[], timeouts bigint[])
LANGUAGE plpgsql /* planner */ AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_count integer := coalesce(cardinality(p_s_runs), 0);
    v_touched text[] := p_queues || coalesce(p_s_queues, '{}');
    v_strict text[];
    s holdfast.session;
    v_shifted bigint;
    v_late boolean;
    v_words text[];
    e holdfast.settlement;
    v_done integer[];
    v_claimed integer := 0;
    v_rows bigint[] := '{}';
    v_alike holdfast.plain_claim;
    v_next bigint;
    v_more boolean := false;
    v_offer record;
    v_room integer := p_room;
    v_suspects text[] := '{}';
    v_queues text[] := p_queues;
    v_queue text;
    i integer;
BEGIN
    -- Queues with limits or lanes come first, in the order of their names; again, when one was found out too late.
    IF p_lock_all AND v_count > 0 THEN
        v_touched := holdfast.queues_reached(v_touched, p_s_runs, p_nexts);
    END IF;
    v_strict := ARRAY(SELECT q.name FROM holdfast.queue q
        WHERE q.name = ANY (v_touched) AND (p_lock_all OR q.concurrency IS NOT NULL OR q.rate_count IS NOT NULL
            OR q.key_concurrency IS NOT NULL OR q.key_rate_count IS NOT NULL
            OR EXISTS (SELECT 1 FROM holdfast.lane l WHERE l.queue = q.name OFFSET 0)) ORDER BY q.name);  -- `has_limits`, written out
    IF cardinality(v_strict) > 0 THEN
        PERFORM holdfast.lock_queues(v_strict);
    END IF;
    v_shifted := holdfast.shift_after_outage(v_now, p_lease, false);
    SELECT * INTO s FROM holdfast.session w WHERE w.id = p_session AND NOT w.dead FOR KEY SHARE;  -- two turns at once
    IF NOT FOUND THEN
        info := json_build_object('evicted', true, 'now', v_now)::text;
        RETURN NEXT;
        RETURN;
    END IF;
    v_late := s.expires_at_ms <= v_now;
    IF v_late OR v_now - s.heard_at_ms > p_lease / 3 THEN
        UPDATE holdfast.session w SET heard_at_ms = v_now, expires_at_ms = v_now + p_lease, parked = NULL
        WHERE w.id = p_session;
    ELSIF s.parked IS NOT NULL THEN
        UPDATE holdfast.session w SET parked = NULL WHERE w.id = p_session;
    END IF;
    IF v_count > 0 AND p_kinds IS NULL THEN
        v_done := holdfast.complete(v_now, p_session, p_s_queues, p_s_ids, p_s_runs, p_s_attempts, p_data, p_ttls,
            p_grips => true, p_nexts => p_nexts);
    ELSIF v_count > 0 THEN
        v_done := '{}';
        PERFORM 1 FROM holdfast.job j WHERE j.run = ANY (p_s_runs) ORDER BY j.run FOR UPDATE;
        PERFORM holdfast.lock_chains(p_s_runs);
    END IF;
    IF v_count > cardinality(v_done) THEN
        v_words := array_fill('ok:completed'::text, ARRAY[v_count]);
        FOR i IN 1..v_count LOOP
            CONTINUE WHEN i = ANY (v_done);
            e.kind := CASE WHEN p_kinds IS NULL THEN 'complete' ELSE p_kinds[i] END;
            e.queue := p_s_queues[i]; e.id := p_s_ids[i]; e.run := p_s_runs[i]; e.attempt := p_s_attempts[i];
            e.data := p_data[i]; e.ttl := p_ttls[i]; e.run_at := p_run_ats[i]; e.delay := p_delays[i];
            e.cause := p_causes[i]; e.company := p_companies[i]; e.error_type := p_error_types[i];
            e.signature := p_signatures[i]; e.next := p_nexts[i];
            v_words[i] := holdfast.settle(v_now, p_session, e, p_grips => true);
        END LOOP;
    END IF;
    IF cardinality(p_queues) > @FEW_QUEUES AND v_room > 0 THEN
        SELECT * INTO v_queues, v_next FROM holdfast.giving(v_now, p_queues);
    END IF;
    FOREACH v_queue IN ARRAY v_queues LOOP
        EXIT WHEN v_room <= 0;
        v_offer := holdfast.claim(v_now, p_session, v_queue, v_room, p_held + v_claimed, p_only_suspects, p_arrays);
        v_claimed := v_claimed + cardinality(v_offer.v_runs);
        v_alike := v_offer.v_plain;
        IF v_alike.runs IS NOT NULL THEN
            queue := v_alike.queue; runs := v_alike.runs; ids := v_alike.ids; tasks := v_alike.tasks; priorities := v_alike.priorities;
            run_ats := v_alike.run_ats; enqueued_ats := v_alike.enqueued_ats; envelopes := v_alike.envelopes; payloads := v_alike.payloads;
            timeouts := holdfast.timeouts_of(queue, tasks);
            RETURN NEXT;
        ELSE
            v_rows := v_rows || v_offer.v_runs;
        END IF;
        v_room := v_offer.v_room;
        IF v_offer.v_suspects THEN
            v_suspects := v_suspects || v_queue;
        END IF;
        v_more := v_more OR v_offer.v_more;
        v_next := least(v_next, v_offer.v_next);
    END LOOP;
    IF v_count > 0 AND cardinality(v_strict) > 0 THEN  -- room that was freed under a limit, and not taken here
        PERFORM holdfast.wake(f.name, f.freed) FROM (SELECT u.name, count(*) AS freed FROM unnest(p_s_queues) AS u(name)
            GROUP BY u.name ORDER BY u.name) f JOIN holdfast.queue q ON q.name = ANY (ARRAY[f.name]) WHERE holdfast.has_limits(q);
    END IF;
    IF p_park AND v_room > 0 THEN
        UPDATE holdfast.session w SET parked = v_room WHERE w.id = (  -- jobs are locked: no waiting
            SELECT p.id FROM holdfast.session p WHERE p.id = p_session FOR NO KEY UPDATE SKIP LOCKED);
        IF NOT FOUND THEN
            v_next := v_now;  -- another call wakes it, or its other turn parks: it asks again
        END IF;
    END IF;
    IF cardinality(v_rows) > 0 THEN
        RETURN QUERY SELECT NULL::text, j.queue, j.id, j.run, j.attempts + (j.state = 'waiting')::integer, j.task, j.priority, j.key, j.run_at_ms,
            j.enqueued_at_ms, j.failures, j.stalls, j.timeouts, j.releases, j.overrides::text, j.envelope, j.error,
            j.checkpoint, j.payload,
            coalesce(CASE WHEN j.overrides IS NOT NULL THEN (j.overrides ->> 'timeout_ms')::bigint END, p.timeout_ms),
            f.queue, f.id, f.run, j.position, j.company, j.snoozes, j.spared, NULL::bigint[], NULL::text[], NULL::text[], NULL::integer[],
            NULL::bigint[], NULL::bigint[], NULL::bytea[], NULL::bytea[], NULL::bigint[]
        FROM unnest(v_rows) WITH ORDINALITY AS c(run, ord) JOIN holdfast.job j ON j.run = ANY (ARRAY[c.run])
            LEFT JOIN holdfast.job f ON f.run = ANY (ARRAY[j.chain])
            LEFT JOIN holdfast.policy p ON p.task = ANY (ARRAY[coalesce(j.task, '')]) AND p.queue = ANY (ARRAY[CASE WHEN (  -- looked up where any has one
                SELECT EXISTS (SELECT 1 FROM holdfast.policy WHERE timeout_ms IS NOT NULL)) THEN j.queue END])
        ORDER BY c.ord;
    END IF;
    queue := NULL; runs := NULL; ids := NULL; tasks := NULL; priorities := NULL; run_ats := NULL; enqueued_ats := NULL; envelopes := NULL;
    payloads := NULL; timeouts := NULL;
    info := json_build_object('late', v_late, 'now', v_now, 'words', v_words, 'next', v_next, 'more', v_more,
        'server', extract(epoch FROM pg_postmaster_start_time())::text,
        'settings', (SELECT json_object_agg(q.name, q.declared || q.operator) FROM holdfast.queue q
            WHERE q.name = ANY (p_serves)),
        'aborts', holdfast.pending_aborts(p_session), 'suspects', v_suspects)::text;
    RETURN NEXT;
END $$;

-- The same as older callers know it: the first row is about the turn, and each of the others is one job.
CREATE OR REPLACE FUNCTION holdfast.turn(
    p_clock         bigint,
    p_session       text,
    p_lease         bigint,
    p_serves        text[],
    p_kinds         text[],
    p_s_queues      text[],
    p_s_ids         text[],
    p_s_runs        bigint[],
    p_s_attempts    integer[],
    p_data          bytea[],
    p_ttls          bigint[],
    p_run_ats       bigint[],
    p_delays        bigint[],
    p_causes        text[],
    p_companies     integer[],
    p_error_types   text[],
    p_signatures    text[],
    p_nexts         text[],
    p_queues        text[],
    p_room          integer,
    p_park          boolean,
    p_held          integer,
    p_only_suspects boolean,
    p_lock_all      boolean)
RETURNS TABLE (info text, queue text, id text, run bigint, attempts integer, task text, priority integer, key text,
    run_at_ms bigint, enqueued_at_ms bigint, failures integer, stalls integer, timeouts integer, releases integer,
    overrides text, envelope bytea, error bytea, checkpoint bytea, payload bytea, timeout_ms bigint,
    chain_queue text, chain_id text, chain bigint, place integer, company integer, snoozes integer, spared integer)
LANGUAGE plpgsql /* planner */ AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT t.info, t.queue, t.id, t.run, t.attempts, t.task, t.priority, t.key, t.run_at_ms, t.enqueued_at_ms, t.failures,
        t.stalls, t.timed_out, t.releases, t.overrides, t.envelope, t.error, t.checkpoint, t.payload, t.timeout_ms, t.chain_queue, t.chain_id,
        t.chain, t.place, t.company, t.snoozes, t.spared
    FROM holdfast.take_turn(p_clock, p_session, p_lease, p_serves, p_kinds, p_s_queues, p_s_ids, p_s_runs, p_s_attempts, p_data, p_ttls,
        p_run_ats, p_delays, p_causes, p_companies, p_error_types, p_signatures, p_nexts, p_queues, p_room, p_park, p_held,
        p_only_suspects, p_lock_all, false) WITH ORDINALITY AS t
    ORDER BY t.info IS NULL, t.ordinality;
END $$;

-- The timeout that each of these tasks has; NULL where none has one.
CREATE OR REPLACE FUNCTION holdfast.timeouts_of(p_queue text, p_tasks text[]) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM holdfast.policy WHERE timeout_ms IS NOT NULL) THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT (SELECT p.timeout_ms FROM holdfast.policy p WHERE p.queue = p_queue AND p.task = coalesce(u.task, ''))
        FROM unnest(p_tasks) WITH ORDINALITY AS u(task, ord) ORDER BY u.ord);
END $$;

-- What the store thinks the session is working on, in rows as those of `turn`, and when each was claimed. A record that is
-- broken fails here instead.
CREATE OR REPLACE FUNCTION holdfast.held(p_clock bigint, p_session text)
RETURNS TABLE (queue text, id text, run bigint, attempts integer, task text, priority integer, key text,
    run_at_ms bigint, enqueued_at_ms bigint, failures integer, stalls integer, timeouts integer, releases integer,
    overrides text, envelope bytea, error bytea, checkpoint bytea, payload bytea, timeout_ms bigint,
    chain_queue text, chain_id text, chain bigint, place integer, company integer, snoozes integer, spared integer,
    claimed_at_ms bigint)
LANGUAGE plpgsql /* planner */ AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_message text := 'the stored record of the job cannot be decoded';
    v_runs bigint[] := '{}';
    j holdfast.job;
BEGIN
    PERFORM 1 FROM holdfast.session WHERE id = p_session AND NOT dead;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (ARRAY(SELECT holdfast.held_runs(p_session)))
        AND queue = ANY (ARRAY(SELECT queue FROM holdfast.serving WHERE id = p_session)) ORDER BY run
    LOOP
        IF holdfast.refusal(j) = 'corrupt' THEN
            PERFORM holdfast.lock_queues(ARRAY[j.queue]);
            SELECT * INTO j FROM holdfast.job t WHERE t.run = j.run FOR UPDATE;
            j := holdfast.write_current_row(j);
            CONTINUE WHEN j.state IS DISTINCT FROM 'active' OR j.session IS DISTINCT FROM p_session;
            PERFORM holdfast.drop_lease(j);
            PERFORM holdfast.fail(v_now, j, holdfast.error_record('CorruptRecord', 'corrupt', v_message), 'CorruptRecord',
                holdfast.signature('CorruptRecord', v_message), 'corrupt', p_ran => true);
        ELSE
            v_runs := v_runs || j.run;
        END IF;
    END LOOP;
    RETURN QUERY SELECT j.queue, j.id, j.run, c.attempts, j.task, j.priority, j.key, j.run_at_ms, j.enqueued_at_ms,
        j.failures, j.stalls, j.timeouts, j.releases, j.overrides::text, j.envelope, j.error, j.checkpoint, j.payload,
        coalesce((j.overrides ->> 'timeout_ms')::bigint, p.timeout_ms), f.queue, f.id, f.run, j.position, j.company,
        j.snoozes, j.spared, c.claimed_at_ms
    FROM unnest(v_runs) WITH ORDINALITY AS h(run, ord) JOIN holdfast.job j ON j.run = ANY (ARRAY[h.run])
        CROSS JOIN LATERAL holdfast.current_row(j) c
        LEFT JOIN holdfast.job f ON f.run = ANY (ARRAY[j.chain])
        LEFT JOIN holdfast.policy p ON p.queue = ANY (ARRAY[j.queue]) AND p.task = ANY (ARRAY[coalesce(j.task, '')])
    ORDER BY h.ord;
END $$;
