-- enqueue: nothing -> waiting | scheduled | blocked
-- guard: no run holds the id
-- effects: number the run, hold the id, append event, wake one worker

-- Every job has its answer, in the order given. An array that is NULL stands for nothing but NULLs.
CREATE OR REPLACE FUNCTION holdfast.enqueue(p_clock bigint, p_queue text, p_request text, p_fresh boolean,
    p_ids text[], p_task text, p_tasks text[], p_payloads bytea[], p_run_ats bigint[], p_delays bigint[],
    p_priorities integer[], p_keys text[], p_headers bytea[], p_overrides text[], p_ttls bigint[],
    p_dedups text[], p_watchers text[],
    p_update boolean DEFAULT false, p_requeue boolean DEFAULT false, p_update_payload boolean DEFAULT true,
    p_update_run_at text DEFAULT 'always', p_reset boolean DEFAULT true, p_joined boolean DEFAULT false,
    p_blockers text[] DEFAULT NULL, p_policies text[] DEFAULT NULL)
RETURNS SETOF holdfast.answer LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    q holdfast.queue;
    v_answers holdfast.answer[];
    easy boolean := NOT p_update AND NOT p_requeue AND p_keys IS NULL AND p_dedups IS NULL AND p_blockers IS NULL;
BEGIN
    IF p_request IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.request ' || p_request, 0));
        SELECT answers INTO v_answers FROM holdfast.request WHERE id = p_request;
        IF FOUND THEN
            RETURN QUERY SELECT * FROM unnest(v_answers);
            RETURN;
        END IF;
    END IF;
    IF p_joined THEN  -- until the caller commits, no row that a worker needs may be locked
        PERFORM set_config('hf.joined', 'on', true);
        PERFORM set_config('hf.clock', p_clock::text, true);
    END IF;
    q := holdfast.settings(p_queue);
    IF easy AND NOT p_fresh THEN
        easy := NOT EXISTS (SELECT 1 FROM unnest(p_ids) AS u(id) CROSS JOIN LATERAL (
                SELECT free_at_ms FROM holdfast.job WHERE queue = p_queue AND id = u.id AND held OFFSET 0) h
            WHERE h.free_at_ms <= v_now);
    END IF;
    IF easy THEN
        v_answers := holdfast.enqueue_new(v_now, q, p_ids, p_task, p_tasks, p_payloads, p_run_ats, p_delays,
            p_priorities, p_headers, p_overrides, p_ttls, p_watchers);
    ELSE
        IF NOT p_joined OR p_update OR p_requeue OR p_keys IS NOT NULL OR p_dedups IS NOT NULL THEN
            PERFORM holdfast.hold(ARRAY[p_queue]);
        END IF;
        v_answers := holdfast.enqueue_each(v_now, p_queue, p_ids, p_task, p_tasks, p_payloads, p_run_ats, p_delays,
            p_priorities, p_keys, p_headers, p_overrides, p_ttls, p_dedups, p_watchers,
            p_update, p_requeue, p_update_payload, p_update_run_at, p_reset, p_blockers, p_policies);
    END IF;
    IF p_joined THEN
        PERFORM set_config('hf.joined', '', true);
    END IF;
    IF p_request IS NOT NULL THEN
        INSERT INTO holdfast.request (id, at_ms, answers) VALUES (p_request, v_now, v_answers);
    END IF;
    RETURN QUERY SELECT * FROM unnest(v_answers);
END $$;

-- Keyless jobs that change nothing: one statement, no lock on the queue, ids in one order for all callers.
CREATE OR REPLACE FUNCTION holdfast.enqueue_new(p_now bigint, q holdfast.queue, p_ids text[], p_task text,
    p_tasks text[], p_payloads bytea[], p_run_ats bigint[], p_delays bigint[], p_priorities integer[],
    p_headers bytea[], p_overrides text[], p_ttls bigint[], p_watchers text[])
RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    v_answers holdfast.answer[];
    v_added integer;
    v_waiting integer;
    v_sooner bigint;
    v_first bigint[];
    j holdfast.job;
    i integer;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT t.ord, nextval('holdfast.run') AS run, t.id, CASE WHEN p_tasks IS NULL THEN p_task ELSE t.task END AS task,
            t.payload, coalesce(t.priority, 0) AS priority, t.headers, t.overrides, t.ttl,
            CASE WHEN t.run_at IS NOT NULL THEN greatest(t.run_at, p_now)
                ELSE p_now + greatest(coalesce(t.delay, 0), 0) END AS run_at
        FROM unnest(p_ids, p_tasks, p_payloads, p_run_ats, p_delays, p_priorities, p_headers, p_overrides, p_ttls)
            WITH ORDINALITY AS t(id, task, payload, run_at, delay, priority, headers, overrides, ttl, ord)
    ), added AS (
        INSERT INTO holdfast.job (run, queue, id, state, task, priority, run_at_ms, ready_at_ms, enqueued_at_ms,
            result_ttl_ms, overrides, headers, payload)
        SELECT run, q.name, id, CASE WHEN run_at > p_now THEN 'scheduled' ELSE 'waiting' END, task, priority,
            run_at, run_at, p_now, ttl, overrides::jsonb, headers, payload
        FROM input ORDER BY id COLLATE "C", ord
        ON CONFLICT (queue, id) WHERE held DO NOTHING
        RETURNING run, id, state, task, priority, run_at_ms, payload
    ), placed AS (
        INSERT INTO holdfast.ready (queue, rank, run_at_ms, run)
        SELECT q.name, -priority, run_at_ms, run FROM added WHERE state = 'waiting' ORDER BY run
    ), told AS (
        INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, priority, run_at_ms, payload)
        SELECT p_now, q.name, id, run, 0, 'enqueue', state, task, priority, run_at_ms,
            CASE WHEN q.payloads THEN payload END
        FROM added ORDER BY run
    )
    SELECT array_agg(CASE WHEN a.state IS NOT NULL  -- runs are numbered in the order given
            THEN ROW('queued', a.id, a.run, a.state, NULL, NULL)::holdfast.answer END ORDER BY a.run),
        count(a.state), count(a.state) FILTER (WHERE a.state = 'waiting'),
        min(a.run_at_ms) FILTER (WHERE a.state = 'scheduled'),
        min(ARRAY[-a.priority, a.run_at_ms, a.run]) FILTER (WHERE a.state = 'waiting')
    INTO v_answers, v_added, v_waiting, v_sooner, v_first
    FROM (SELECT run, max(id) AS id, max(state) AS state, max(priority) AS priority, max(run_at_ms) AS run_at_ms
        FROM (SELECT run, id, state, priority, run_at_ms FROM added UNION ALL SELECT run, NULL, NULL, NULL, NULL FROM input) u
        GROUP BY run) a;
    IF EXISTS (SELECT 1 FROM holdfast.front) THEN  -- a claim must not begin behind one of them
        DELETE FROM holdfast.front WHERE queue = q.name AND ARRAY[rank, run_at_ms, run] > v_first;
    END IF;
    IF v_added < cardinality(p_ids) THEN
        FOR i IN 1..cardinality(p_ids) LOOP
            IF v_answers[i] IS NULL THEN
                SELECT * INTO j FROM holdfast.job WHERE queue = q.name AND id = p_ids[i] AND held;
                IF NOT FOUND THEN
                    RAISE lock_not_available USING MESSAGE = 'the run that holds the id is going; try again';
                END IF;
                v_answers[i] := holdfast.as_it_is(j);
            END IF;
        END LOOP;
    END IF;
    IF p_watchers IS NOT NULL THEN
        v_answers := holdfast.watch_all(q.name, v_answers, p_watchers);
    END IF;
    PERFORM holdfast.wake(q.name, v_waiting);
    IF v_sooner IS NOT NULL THEN
        PERFORM holdfast.wake_for(p_now, q.name, v_sooner);
    END IF;
    RETURN v_answers;
END $$;

-- Jobs that may meet others, one by one, under the queue's lock.
CREATE OR REPLACE FUNCTION holdfast.enqueue_each(p_now bigint, p_queue text, p_ids text[], p_task text,
    p_tasks text[], p_payloads bytea[], p_run_ats bigint[], p_delays bigint[], p_priorities integer[], p_keys text[],
    p_headers bytea[], p_overrides text[], p_ttls bigint[], p_dedups text[], p_watchers text[],
    p_update boolean, p_requeue boolean, p_update_payload boolean, p_update_run_at text, p_reset boolean,
    p_blockers text[], p_policies text[])
RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    v_answers holdfast.answer[] := array_fill(NULL::holdfast.answer, ARRAY[cardinality(p_ids)]);
    t record;
    s holdfast.successor;
    j holdfast.job;
    answer holdfast.answer;
    dedup jsonb;
    v_keys text[] := '{}';
    v_waiting integer := 0;
    v_sooner bigint;
    v_failed boolean;
    v_state text;
    v_open integer;
    v_blocker text[];
BEGIN
    PERFORM 1 FROM holdfast.job WHERE run = ANY (ARRAY(SELECT h.run FROM unnest(p_ids) AS u(id) CROSS JOIN LATERAL (
        SELECT run FROM holdfast.job WHERE queue = p_queue AND id = u.id AND held OFFSET 0) h))
    ORDER BY holdfast.lock_rank(state, chain_state), run FOR UPDATE;
    FOR t IN  -- numbered in the order given, taken in the order of ids
        WITH input AS MATERIALIZED (
            SELECT u.*, nextval('holdfast.run') AS run
            FROM unnest(p_ids, p_tasks, p_payloads, p_run_ats, p_delays, p_priorities, p_keys, p_headers, p_overrides,
                p_ttls, p_dedups, p_blockers, p_policies)
                WITH ORDINALITY AS u(id, task, payload, run_at, delay, priority, key, headers, overrides, ttl, dedup,
                    blockers, policy, ord)
        )
        SELECT * FROM input ORDER BY CASE WHEN p_dedups IS NULL THEN id END COLLATE "C", ord
    LOOP
        dedup := t.dedup::jsonb;
        s := ROW(p_queue, t.id, t.run, CASE WHEN p_tasks IS NULL THEN p_task ELSE t.task END, coalesce(t.priority, 0),
            t.key,
            CASE WHEN t.run_at IS NOT NULL THEN greatest(t.run_at, p_now)
                ELSE p_now + greatest(coalesce(t.delay, 0), 0) END,
            p_now, p_update_payload, p_update_run_at, p_reset, t.ttl, dedup ->> 'key',
            p_now + (dedup ->> 'window_ms')::bigint, t.overrides::jsonb, t.headers, t.payload);
        answer := NULL;
        IF dedup IS NOT NULL THEN
            j := holdfast.deduplicated(p_now, s, dedup);
            IF j.run IS NOT NULL THEN
                answer := holdfast.as_it_is(j);
            END IF;
        END IF;
        WHILE answer IS NULL LOOP
            j := holdfast.holder(p_now, p_queue, t.id);
            v_state := holdfast.outcome(j);
            IF j.run IS NOT NULL AND p_update AND j.position > 0 THEN
                answer := ROW('refused', j.id, j.run, v_state, NULL, NULL)::holdfast.answer;
            ELSIF j.run IS NOT NULL AND p_update AND v_state = 'active' THEN
                answer := holdfast.update_active(p_now, j, s);
            ELSIF j.run IS NOT NULL AND p_update AND v_state IN ('blocked', 'scheduled', 'waiting') THEN
                s.run := j.run;
                answer := ROW('updated', j.id, j.run, holdfast.merge(p_now, j, s, NULL), NULL, NULL)::holdfast.answer;
            ELSIF j.run IS NOT NULL AND NOT p_update AND NOT (v_state = 'failed' AND p_requeue) THEN
                answer := holdfast.as_it_is(j);
            ELSE
                v_failed := j.run IS NOT NULL AND v_state = 'failed';
                IF j.run IS NOT NULL THEN
                    UPDATE holdfast.job SET held = false, requeued_as = s.run WHERE run = j.run;
                END IF;
                v_open := NULL;
                v_blocker := NULL;
                IF t.blockers IS NOT NULL THEN
                    SELECT w.v_open, w.v_failed INTO v_open, v_blocker
                    FROM holdfast.wait_for(p_now, s.run, t.blockers::jsonb, t.policy) w;
                END IF;
                CONTINUE WHEN NOT holdfast.insert(p_now, s, CASE WHEN v_failed THEN 'requeue' ELSE 'enqueue' END, NULL,
                    p_open => v_open, p_failed => v_blocker, p_policy => t.policy);
                v_state := CASE WHEN v_blocker IS NOT NULL THEN CASE t.policy WHEN 'cancel' THEN 'cancelled' ELSE 'failed' END
                    WHEN v_open > 0 THEN 'blocked' WHEN s.run_at_ms > p_now THEN 'scheduled' ELSE 'waiting' END;
                answer := ROW(CASE WHEN v_failed THEN 'requeued' ELSE 'queued' END, s.id, s.run, v_state, NULL,
                    NULL)::holdfast.answer;
                IF v_state = 'scheduled' THEN
                    v_sooner := least(v_sooner, s.run_at_ms);
                ELSIF v_state = 'waiting' THEN
                    v_waiting := v_waiting + 1;
                END IF;
                IF v_state IN ('scheduled', 'waiting') THEN
                    v_keys := v_keys || s.key;
                END IF;
            END IF;
        END LOOP;
        v_answers[t.ord] := answer;
    END LOOP;
    IF p_keys IS NOT NULL THEN  -- a lane stands behind those that came before it
        PERFORM holdfast.recheck(p_now, p_queue, k.key)
        FROM (SELECT u.key FROM unnest(p_keys) WITH ORDINALITY AS u(key, ord)
              WHERE u.key = ANY (v_keys) GROUP BY u.key ORDER BY min(u.ord)) AS k;
    END IF;
    IF p_watchers IS NOT NULL THEN
        v_answers := holdfast.watch_all(p_queue, v_answers, p_watchers);
    END IF;
    PERFORM holdfast.wake(p_queue, v_waiting);
    IF v_sooner IS NOT NULL THEN
        PERFORM holdfast.wake_for(p_now, p_queue, v_sooner);
    END IF;
    RETURN v_answers;
END $$;

-- A new run of a free id is there; false when somebody was quicker.
-- p_chain, p_position: its place in a chain. p_open, p_failed, p_policy: what it waits for, as `wait_for` says.
CREATE OR REPLACE FUNCTION holdfast.insert(p_now bigint, s holdfast.successor, p_transition text, p_cause text,
    p_chain bigint DEFAULT NULL, p_position integer DEFAULT 0, p_open integer DEFAULT NULL,
    p_failed text[] DEFAULT NULL, p_policy text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    INSERT INTO holdfast.job (run, queue, id, state, task, priority, key, run_at_ms, ready_at_ms, enqueued_at_ms,
        result_ttl_ms, dedup_key, dedup_until_ms, overrides, headers, payload, chain, position, blockers,
        on_blocker_failed)
    VALUES (s.run, s.queue, s.id, CASE WHEN p_open > 0 OR p_failed IS NOT NULL THEN 'blocked'
            WHEN s.run_at_ms > p_now THEN 'scheduled' ELSE 'waiting' END, s.task, s.priority,
        s.key, s.run_at_ms, s.run_at_ms, s.enqueued_at_ms, s.result_ttl_ms, s.dedup_key, s.dedup_until_ms,
        s.overrides, s.headers, s.payload, p_chain, p_position, p_open, p_policy)
    ON CONFLICT (queue, id) WHERE held DO NOTHING
    RETURNING * INTO j;
    IF NOT FOUND THEN
        DELETE FROM holdfast.blocker WHERE run = s.run AND p_open IS NOT NULL;
        RETURN false;
    END IF;
    IF p_chain IS NOT NULL THEN
        UPDATE holdfast.job SET tail = s.run WHERE run = p_chain;
    END IF;
    PERFORM holdfast.place(ARRAY[s.run]);
    PERFORM holdfast.append(p_now, p_transition, ARRAY[s.run], p_cause,
        p_payload => (holdfast.settings(s.queue)).payloads);
    IF p_failed IS NOT NULL THEN
        PERFORM holdfast.give_up(p_now, j, p_failed[1], p_failed[2]);
    END IF;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION holdfast.deduplicated(p_now bigint, s holdfast.successor, p_dedup jsonb)
RETURNS holdfast.job LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_next holdfast.successor;
BEGIN
    FOR j IN
        SELECT * FROM holdfast.job
        WHERE (queue, dedup_key, run) >= (s.queue, s.dedup_key, 0)
            AND (queue, dedup_key, run) <= (s.queue, s.dedup_key, 9223372036854775807) AND dedup_key IS NOT NULL
            AND task IS NOT DISTINCT FROM s.task
        ORDER BY queue DESC, dedup_key DESC, run DESC LIMIT 50
    LOOP
        CONTINUE WHEN j.expires_at_ms <= p_now OR p_dedup -> 'exclude' ? j.id;
        CONTINUE WHEN holdfast.outcome(j) = 'cancelled'
            OR holdfast.outcome(j) IN ('completed', 'failed') AND p_dedup ->> 'scope' = 'incomplete';
        CONTINUE WHEN j.enqueued_at_ms + (p_dedup ->> 'window_ms')::bigint <= p_now;
        RETURN j;
    END LOOP;
    FOR v_next IN
        SELECT * FROM holdfast.successor t
        WHERE t.queue = s.queue AND t.dedup_key = s.dedup_key AND t.task IS NOT DISTINCT FROM s.task
    LOOP
        CONTINUE WHEN p_dedup -> 'exclude' ? v_next.id
            OR v_next.enqueued_at_ms + (p_dedup ->> 'window_ms')::bigint <= p_now;
        SELECT * INTO j FROM holdfast.job WHERE queue = v_next.queue AND id = v_next.id AND held;
        j.run := v_next.run;
        j.state := 'active';
        j.chain_state := NULL;
        RETURN j;
    END LOOP;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION holdfast.as_it_is(j holdfast.job) RETURNS holdfast.answer LANGUAGE plpgsql AS $$
BEGIN
    RETURN ROW(CASE WHEN holdfast.outcome(j) = 'completed' THEN 'completed' ELSE 'duplicate' END, j.id, j.run,
        holdfast.outcome(j), j.result, CASE WHEN holdfast.outcome(j) = 'failed' THEN j.error END)::holdfast.answer;
END $$;

-- Whoever asked hears of the run that answers. It is locked first, so that it cannot end unheard.
CREATE OR REPLACE FUNCTION holdfast.watch_all(p_queue text, p_answers holdfast.answer[], p_watchers text[])
RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    answer holdfast.answer;
    j holdfast.job;
    i integer;
BEGIN
    IF EXISTS (SELECT 1 FROM unnest(p_answers) a WHERE a.status <> 'queued') THEN
        PERFORM 1 FROM holdfast.job WHERE run = ANY (ARRAY(SELECT a.run FROM unnest(p_answers) a)) ORDER BY run FOR NO KEY UPDATE;
    END IF;
    FOR i IN 1..cardinality(p_answers) LOOP
        answer := p_answers[i];
        CONTINUE WHEN p_watchers[i] IS NULL OR answer.state IN ('completed', 'failed', 'cancelled');
        IF answer.status = 'duplicate' THEN
            SELECT * INTO j FROM holdfast.job WHERE run = answer.run;
            IF holdfast.outcome(j) IN ('completed', 'failed', 'cancelled') THEN
                p_answers[i] := holdfast.as_it_is(j);
                CONTINUE;
            END IF;
        END IF;
        INSERT INTO holdfast.watch (run, address, queue, id) VALUES (answer.run, p_watchers[i], p_queue, answer.id)
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN p_answers;
END $$;
