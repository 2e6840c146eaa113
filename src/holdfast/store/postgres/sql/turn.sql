-- What a worker calls: everything that has finished is settled, and what there is room for is claimed.

-- The run counts its cause and waits again, or fails at its limit (retry, release, reap); its state is returned.
-- p_company: how many jobs at most ran where it stalled.
CREATE OR REPLACE FUNCTION holdfast.come_back(p_now bigint, j holdfast.job, p_cause text, p_exit text, p_delay bigint,
    p_error bytea, p_type text, p_signature text, p_company integer DEFAULT 1) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy := holdfast.rule(j);
    v_counted integer;
    v_limit integer;
    v_name text;
    v_message text;
    v_run_at bigint := j.run_at_ms;
    n holdfast.job := j;
    v_final boolean;
BEGIN
    CASE p_cause
        WHEN 'timeout' THEN v_counted := j.timeouts + 1; v_limit := p.timeouts; v_name := 'timeouts'; n.timeouts := v_counted;
        WHEN 'stall' THEN v_counted := j.stalls + 1; v_limit := p.stalls; v_name := 'stalls'; n.stalls := v_counted;
        WHEN 'release' THEN v_counted := j.releases + 1; v_limit := p.releases; v_name := 'releases'; n.releases := v_counted;
        WHEN 'failure' THEN v_counted := j.failures + 1; v_limit := p.failures; v_name := 'failures'; n.failures := v_counted;
        WHEN 'worker' THEN v_counted := 0;  -- it costs nothing, and has no limit
        ELSE v_counted := 1; v_limit := 1; v_name := 'failures';
    END CASE;
    v_final := coalesce(v_counted >= v_limit, false);
    IF p_cause = 'stall' AND (p_exit = 'reap' OR p_company > 1) THEN  -- a process that ran nothing else harmed nobody else
        n.company := holdfast.company_after(v_counted, v_limit, least(p_company, j.company));
        v_final := n.company IS NULL;
    END IF;
    IF v_final THEN
        IF p_error IS NULL THEN
            v_message := v_counted || ' ' || v_name || ', and no more are allowed';
            p_type := 'TooMany' || initcap(v_name);
            p_error := holdfast.error(p_type, p_cause, v_message);
            p_signature := holdfast.signature(p_type, v_message);
        END IF;
        RETURN holdfast.fail(p_now, j, p_error, p_type, p_signature, p_cause, p_exit, NULL, true, true);
    END IF;
    IF p_exit = 'retry' THEN
        v_run_at := p_now + holdfast.backoff_ms(p, v_counted);
        PERFORM holdfast.retry(p_now, n, v_run_at, p_error, p_cause, p_type, p_signature);
    ELSIF p_exit = 'release' THEN
        v_run_at := CASE WHEN p_delay > 0 THEN p_now + p_delay ELSE v_run_at END;
        PERFORM holdfast.release(p_now, n, v_run_at, p_error, nullif(p_cause, 'release'), p_type, p_signature);
    ELSE
        PERFORM holdfast.put_back_stalled(p_now, n, p_error, p_type, p_signature);
    END IF;
    PERFORM holdfast.absorb(p_now, j.queue, j.id, j.run);
    PERFORM holdfast.wake_for(p_now, j.queue, v_run_at);
    RETURN (SELECT state FROM holdfast.job WHERE run = j.run);
END $$;

-- One settlement has its word; an `ok` is followed by the state. p_grips is false where the transaction may stay open:
-- the session's next turn must not wait for it, and its next heartbeat finds the grip that is left over.
CREATE OR REPLACE FUNCTION holdfast.settle(p_now bigint, p_session text, p_kind text, p_queue text, p_id text,
    p_run bigint, p_attempt integer, p_data bytea, p_number bigint, p_cause text, p_type text, p_signature text,
    p_grips boolean DEFAULT true, p_next text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_active boolean;
    v_ours boolean;
    v_repeated boolean;
    v_state text;
BEGIN
    SELECT * INTO j FROM holdfast.job WHERE run = p_run FOR UPDATE;
    IF NOT FOUND THEN
        DELETE FROM holdfast.abort WHERE run = p_run AND attempt = p_attempt;
        RETURN 'missing';
    ELSIF j.queue <> p_queue OR j.id <> p_id THEN
        RETURN 'missing';
    END IF;
    v_active := j.state = 'active';
    v_ours := coalesce(j.session = p_session, false) AND j.attempts = p_attempt;
    v_repeated := v_ours AND NOT v_active AND coalesce(j.exit = p_kind, false);
    -- The attempt before is remembered too: a repeat may come when somebody else has claimed the job already.
    IF j.last_session = p_session AND j.attempts = p_attempt + 1 THEN
        v_repeated := coalesce(j.last_exit = p_kind, false);
    END IF;
    IF v_repeated THEN
        RETURN 'ok:' || j.state;
    ELSIF NOT (v_ours AND v_active) THEN
        IF j.session = p_session THEN  -- it knows by now
            DELETE FROM holdfast.abort WHERE session = p_session AND run = p_run AND attempt = p_attempt;
        END IF;
        RETURN 'stale';
    END IF;
    IF p_kind = 'complete' AND NOT (j.cancel AND p_next IS NOT NULL) THEN  -- to go on is no end
        PERFORM holdfast.complete(p_now, p_session, ARRAY[p_queue], ARRAY[p_id], ARRAY[p_run], ARRAY[p_attempt],
            ARRAY[p_data], ARRAY[p_number], p_grips, CASE WHEN p_next IS NOT NULL THEN ARRAY[p_next] END);
        RETURN 'ok:completed';
    END IF;
    PERFORM holdfast.let_go(j);
    IF j.cancel THEN
        v_state := holdfast.finish_cancelled(p_now, j, p_kind, true);
    ELSIF p_kind = 'retry' THEN
        v_state := holdfast.come_back(p_now, j, p_cause, 'retry', 0, p_data, p_type, p_signature);
    ELSIF p_kind = 'fail' THEN
        v_state := holdfast.fail(p_now, j, p_data, p_type, p_signature, p_cause, 'fail', p_number, true, true);
    ELSIF p_kind = 'release' THEN
        v_state := holdfast.come_back(p_now, j, split_part(p_cause, ' ', 1), 'release', p_number, p_data, p_type,
            p_signature, coalesce(nullif(split_part(p_cause, ' ', 2), '')::integer, 1));
    ELSE
        PERFORM holdfast.snooze(p_now, j, CASE WHEN p_cause = 'delay' THEN p_now + p_number ELSE greatest(p_number, p_now) END);
        v_state := (SELECT state FROM holdfast.job WHERE run = j.run);
    END IF;
    DELETE FROM holdfast.abort WHERE session = p_session AND run = p_run AND attempt = p_attempt;
    PERFORM holdfast.recheck(p_now, j.queue, j.key);
    RETURN 'ok:' || v_state;
END $$;

-- The first row's `info` is about the turn as a whole; the others are the claimed jobs.
-- Beginning a statement costs 15 µs and more: so functions are called by assignment, which is none, and questions go together.
-- p_kinds NULL: every settlement is a completion. A stall's cause may have the size of its company behind a space.
-- p_held: how many jobs the worker holds. An older one does not say so, and knows nothing of suspects.
CREATE OR REPLACE FUNCTION holdfast.turn(p_clock bigint, p_session text, p_lease bigint, p_serves text[],
    p_kinds text[], p_s_queues text[], p_s_ids text[], p_s_runs bigint[], p_s_attempts integer[], p_data bytea[],
    p_numbers bigint[], p_causes text[], p_types text[], p_signatures text[],
    p_queues text[], p_room integer, p_park boolean, p_hold boolean, p_nexts text[] DEFAULT NULL,
    p_held integer DEFAULT 2000000000, p_only_suspects boolean DEFAULT false)
RETURNS TABLE (info text, queue text, id text, run bigint, attempts integer, task text, priority integer, key text,
    run_at_ms bigint, enqueued_at_ms bigint, failures integer, stalls integer, timeouts integer, releases integer,
    overrides text, headers bytea, error bytea, checkpoint bytea, payload bytea, timeout_ms bigint,
    chain_queue text, chain_id text, chain bigint, place integer, company integer)
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
    v_done integer[];
    v_claimed bigint[] := '{}';
    v_next bigint;
    v_more boolean := false;
    v_offer record;
    v_room integer := p_room;
    v_suspects text[] := '{}';
    v_queue text;
    i integer;
BEGIN
    -- Queues with limits or lanes come first, in the order of their names; again, when one was found out too late.
    IF p_hold AND v_count > 0 THEN
        v_touched := holdfast.reached(v_touched, p_s_runs, p_nexts);
    END IF;
    v_strict := ARRAY(SELECT q.name FROM holdfast.queue q
        WHERE q.name = ANY (v_touched) AND (p_hold OR q.concurrency IS NOT NULL OR q.rate_count IS NOT NULL
            OR q.key_concurrency IS NOT NULL OR q.key_rate_count IS NOT NULL
            OR EXISTS (SELECT 1 FROM holdfast.lane l WHERE l.queue = q.name OFFSET 0)) ORDER BY q.name);  -- `strict`, written out
    IF cardinality(v_strict) > 0 THEN
        PERFORM holdfast.hold(v_strict);
    END IF;
    v_shifted := holdfast.after_an_outage(v_now, p_lease, false);
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
        v_done := holdfast.complete(v_now, p_session, p_s_queues, p_s_ids, p_s_runs, p_s_attempts, p_data, p_numbers,
            true, p_nexts);
        IF cardinality(v_done) = v_count THEN
            v_words := NULL;
        ELSE
            v_words := array_fill('ok:completed'::text, ARRAY[v_count]);
            FOR i IN 1..v_count LOOP
                CONTINUE WHEN i = ANY (v_done);
                v_words[i] := holdfast.settle(v_now, p_session, 'complete', p_s_queues[i], p_s_ids[i], p_s_runs[i],
                    p_s_attempts[i], p_data[i], p_numbers[i], NULL, NULL, NULL, true, p_nexts[i]);
            END LOOP;
        END IF;
    ELSIF v_count > 0 THEN
        PERFORM 1 FROM holdfast.job j WHERE j.run = ANY (p_s_runs) ORDER BY j.run FOR UPDATE;
        PERFORM holdfast.hold_chains(p_s_runs);
        v_words := '{}';
        FOR i IN 1..v_count LOOP
            v_words := v_words || holdfast.settle(v_now, p_session, p_kinds[i], p_s_queues[i], p_s_ids[i], p_s_runs[i],
                p_s_attempts[i], p_data[i], p_numbers[i], p_causes[i], p_types[i], p_signatures[i], true, p_nexts[i]);
        END LOOP;
    END IF;
    FOREACH v_queue IN ARRAY p_queues LOOP
        EXIT WHEN v_room <= 0;
        v_offer := holdfast.claim(v_now, p_session, v_queue, v_room, p_held + cardinality(v_claimed), p_only_suspects);
        v_claimed := v_claimed || v_offer.v_runs;
        v_room := v_offer.v_room;
        IF v_offer.v_suspects THEN
            v_suspects := v_suspects || v_queue;
        END IF;
        v_more := v_more OR v_offer.v_more;
        v_next := least(v_next, v_offer.v_next);
    END LOOP;
    IF v_count > 0 AND cardinality(v_strict) > 0 THEN  -- room that was freed under a limit, and not taken here
        PERFORM holdfast.wake(f.name, f.freed) FROM (SELECT u.name, count(*) AS freed FROM unnest(p_s_queues) AS u(name)
            GROUP BY u.name ORDER BY u.name) f JOIN holdfast.queue q ON q.name = ANY (ARRAY[f.name]) WHERE holdfast.strict(q);
    END IF;
    IF p_park AND v_room > 0 THEN
        UPDATE holdfast.session w SET parked = v_room WHERE w.id = (  -- jobs are locked: no waiting
            SELECT p.id FROM holdfast.session p WHERE p.id = p_session FOR NO KEY UPDATE SKIP LOCKED);
        IF NOT FOUND THEN
            v_next := v_now;  -- somebody wakes it, or its other turn parks: it asks again
        END IF;
    END IF;
    info := json_build_object('late', v_late, 'now', v_now, 'words', v_words, 'next', v_next, 'more', v_more,
        'server', extract(epoch FROM pg_postmaster_start_time())::text,
        'settings', (SELECT json_object_agg(q.name, q.declared || q.operator) FROM holdfast.queue q
            WHERE q.name = ANY (p_serves)),
        'aborts', holdfast.aborts(p_session), 'suspects', v_suspects)::text;
    RETURN NEXT;
    IF cardinality(v_claimed) > 0 THEN
        RETURN QUERY SELECT NULL::text, j.queue, j.id, j.run, j.attempts, j.task, j.priority, j.key, j.run_at_ms,
            j.enqueued_at_ms, j.failures, j.stalls, j.timeouts, j.releases, j.overrides::text, j.headers, j.error,
            j.checkpoint, j.payload,
            coalesce(CASE WHEN j.overrides IS NOT NULL THEN (j.overrides ->> 'timeout_ms')::bigint END, p.timeout_ms),
            f.queue, f.id, f.run, j.position, j.company
        FROM unnest(v_claimed) WITH ORDINALITY AS c(run, ord) JOIN holdfast.job j ON j.run = ANY (ARRAY[c.run])
            LEFT JOIN holdfast.job f ON f.run = ANY (ARRAY[j.chain])
            LEFT JOIN holdfast.policy p ON p.task = ANY (ARRAY[coalesce(j.task, '')]) AND p.queue = ANY (ARRAY[CASE WHEN (  -- looked up where any has one
                SELECT EXISTS (SELECT 1 FROM holdfast.policy WHERE timeout_ms IS NOT NULL)) THEN j.queue END])
        ORDER BY c.ord;
    END IF;
END $$;

-- What the store thinks the session is working on. A record that is broken fails here instead.
CREATE OR REPLACE FUNCTION holdfast.held(p_clock bigint, p_session text) RETURNS SETOF bigint LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
BEGIN
    PERFORM 1 FROM holdfast.session WHERE id = p_session AND NOT dead;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (ARRAY(SELECT holdfast.holding(p_session)))
        AND queue = ANY (ARRAY(SELECT queue FROM holdfast.serving WHERE id = p_session)) ORDER BY run
    LOOP
        IF holdfast.refusal(j) = 'corrupt' THEN
            PERFORM holdfast.hold(ARRAY[j.queue]);
            SELECT * INTO j FROM holdfast.job WHERE run = j.run AND state = 'active' AND session = p_session FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
            PERFORM holdfast.let_go(j);
            PERFORM holdfast.fail(v_now, j,
                holdfast.error('CorruptRecord', 'corrupt', 'the stored record of the job cannot be decoded'),
                'CorruptRecord', holdfast.signature('CorruptRecord', 'the stored record of the job cannot be decoded'), 'corrupt', 'fail', NULL, false, true);
        ELSE
            RETURN NEXT j.run;
        END IF;
    END LOOP;
END $$;
