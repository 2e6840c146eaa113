-- Fast path of `enqueue_each`, for jobs without blockers and deduplication, which change nothing that is there.
-- test_postgres_fast_paths.py compares the two.

-- Jobs that change nothing: one statement, ids in one order for all callers. The queue is locked where a job has a key.
-- An id that a job has is not tried: whoever ends that job would be waited for, with the ids that came before it in hand.
CREATE OR REPLACE FUNCTION holdfast.enqueue_new(p_now bigint, q holdfast.queue, b holdfast.batch)
RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    v_answers holdfast.answer[];
    v_ids text[] := b.ids;  -- which are looked at one by one
    v_added integer;
    v_waiting integer;
    v_sooner bigint;
    v_first bigint[];
    v_keys text[];
    j holdfast.job;
    i integer;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT t.ord, nextval('holdfast.run') AS run, t.id, CASE WHEN b.tasks IS NULL THEN b.task ELSE t.task END AS task,
            t.payload, coalesce(t.priority, 0) AS priority, t.key, t.envelope, t.overrides, t.ttl,
            CASE WHEN t.run_at IS NOT NULL THEN greatest(t.run_at, p_now)
                ELSE p_now + greatest(coalesce(t.delay, 0), 0) END AS run_at
        FROM unnest(b.ids, b.tasks, b.payloads, b.run_ats, b.delays, b.priorities, b.keys, b.envelopes, b.overrides, b.ttls)
            WITH ORDINALITY AS t(id, task, payload, run_at, delay, priority, key, envelope, overrides, ttl, ord)
    ), added AS (
        INSERT INTO holdfast.job (run, queue, id, state, task, priority, key, run_at_ms, ready_at_ms, enqueued_at_ms,
            result_ttl_ms, overrides, envelope, payload)
        SELECT run, q.name, id, CASE WHEN run_at > p_now THEN 'scheduled' ELSE 'waiting' END, task, priority, key,
            run_at, run_at, p_now, ttl, overrides::jsonb, envelope, payload
        FROM input i WHERE NOT EXISTS (SELECT 1 FROM holdfast.job h WHERE h.queue = q.name AND h.id = i.id AND h.held OFFSET 0)
        ORDER BY id COLLATE "C", ord
        ON CONFLICT (queue, id) WHERE held DO NOTHING
        RETURNING run, id, state, task, priority, key, run_at_ms, payload, envelope
    ), counted AS (
        INSERT INTO holdfast.move (queue, state, count) SELECT q.name, state, count(*) FROM added GROUP BY state
    ), placed AS (
        INSERT INTO holdfast.ready (queue, key, rank, run_at_ms, run)
        SELECT q.name, key, -priority, run_at_ms, run FROM added WHERE state = 'waiting' ORDER BY run
    ), told AS (
        INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, key, priority, run_at_ms, payload,
            envelope)
        SELECT p_now, q.name, id, run, 0, 'enqueue', state, task, key, priority, run_at_ms,
            CASE WHEN q.payloads THEN payload END, envelope
        FROM added ORDER BY run
    )
    SELECT array_agg(CASE WHEN a.state IS NOT NULL  -- runs are numbered in the order given
            THEN ROW('queued', a.id, a.run, a.state, NULL, NULL)::holdfast.answer END ORDER BY a.run),
        count(a.state), count(a.state) FILTER (WHERE a.state = 'waiting'),
        min(a.run_at_ms) FILTER (WHERE a.state = 'scheduled'),
        min(ARRAY[-a.priority, a.run_at_ms, a.run]) FILTER (WHERE a.state = 'waiting' AND a.key IS NULL),
        array_agg(a.key ORDER BY a.run) FILTER (WHERE a.key IS NOT NULL)
    INTO v_answers, v_added, v_waiting, v_sooner, v_first, v_keys
    FROM (SELECT run, max(id) AS id, max(state) AS state, max(priority) AS priority, max(key) AS key, max(run_at_ms) AS run_at_ms
        FROM (SELECT run, id, state, priority, key, run_at_ms FROM added UNION ALL SELECT run, NULL, NULL, NULL, NULL, NULL FROM input) u
        GROUP BY run) a;
    IF EXISTS (SELECT 1 FROM holdfast.front) THEN  -- a claim must not begin behind one of them
        DELETE FROM holdfast.front WHERE queue = q.name AND ARRAY[rank, run_at_ms, run] > v_first;
    END IF;
    IF v_added < cardinality(b.ids) THEN
        FOR i IN 1..cardinality(v_ids) LOOP
            IF v_answers[i] IS NULL THEN
                SELECT * INTO j FROM holdfast.job WHERE queue = q.name AND id = v_ids[i] AND held;
                IF NOT FOUND THEN
                    RAISE lock_not_available USING MESSAGE = 'the run that holds the id is going; try again';
                END IF;
                v_answers[i] := holdfast.answer_for(j);
            END IF;
        END LOOP;
    END IF;
    IF v_keys IS NOT NULL THEN  -- a lane stands behind those that came before it
        PERFORM holdfast.refresh_keys(p_now, q.name, v_keys);
    END IF;
    IF b.watchers IS NOT NULL THEN
        v_answers := holdfast.watch_answers(q.name, v_answers, b.watchers);
    END IF;
    PERFORM holdfast.wake(q.name, v_waiting);
    IF v_sooner IS NOT NULL THEN
        PERFORM holdfast.wake_for(p_now, q.name, v_sooner);
    END IF;
    RETURN v_answers;
END $$;
