-- Chains: a job goes on with the next, and what the first job's row says of all of them.

-- The next job of each of these chains is there. p_nexts: each as JSON, made by `call.continuation`.
CREATE OR REPLACE FUNCTION holdfast.follow(p_now bigint, p_chains bigint[], p_positions integer[], p_nexts text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_rest jsonb;
    v_runs bigint[];
    v_news jsonb;
    n jsonb;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT nextval('holdfast.run') AS run, u.chain, u.position + 1 AS position, u.next::jsonb AS next
        FROM unnest(p_chains, p_positions, p_nexts) AS u(chain, position, next)
    ), timed AS MATERIALIZED (
        SELECT *, CASE WHEN next ? 'run_at' THEN greatest((next ->> 'run_at')::bigint, p_now)
            ELSE p_now + greatest(coalesce((next ->> 'delay')::bigint, 0), 0) END AS run_at
        FROM input
    ), added AS (  -- by chain: their rows are locked in this order, too
        INSERT INTO holdfast.job (run, queue, id, state, task, priority, run_at_ms, ready_at_ms, enqueued_at_ms,
            result_ttl_ms, overrides, headers, payload, chain, position)
        SELECT run, next ->> 'queue', next ->> 'id', CASE WHEN run_at > p_now THEN 'scheduled' ELSE 'waiting' END,
            next ->> 'task', coalesce((next ->> 'priority')::integer, 0), run_at, run_at, p_now,
            (next ->> 'ttl')::bigint, next -> 'overrides', decode(next ->> 'headers', 'hex'),
            decode(next ->> 'payload', 'hex'), chain, position
        FROM timed WHERE NOT next ? 'key' AND NOT next ? 'blockers' ORDER BY chain
        ON CONFLICT (queue, id) WHERE held DO NOTHING
        RETURNING run, queue, id, state, task, priority, run_at_ms, payload, chain
    ), known AS (  -- their chains know of them
        UPDATE holdfast.job f SET tail = a.run FROM added a WHERE f.run = ANY (ARRAY[a.chain])
    ), placed AS (
        INSERT INTO holdfast.ready (queue, rank, run_at_ms, run)
        SELECT queue, -priority, run_at_ms, run FROM added WHERE state = 'waiting' ORDER BY run
    ), told AS (
        INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, priority, run_at_ms, payload)
        SELECT p_now, a.queue, a.id, a.run, 0, 'enqueue', a.state, a.task, a.priority, a.run_at_ms,
            CASE WHEN q.payloads THEN a.payload END
        FROM added a LEFT JOIN holdfast.queue q ON q.name = ANY (ARRAY[a.queue]) ORDER BY a.run
    )
    SELECT jsonb_agg(next || jsonb_build_object('run', t.run, 'chain', t.chain, 'position', position, 'at', run_at)
            ORDER BY t.run) FILTER (WHERE a.run IS NULL), array_agg(t.run) FILTER (WHERE a.run IS NOT NULL),
        (SELECT jsonb_agg(jsonb_build_object('queue', g.queue, 'waiting', g.waiting, 'sooner', g.sooner) ORDER BY g.queue)
         FROM (SELECT queue, count(*) FILTER (WHERE state = 'waiting') AS waiting,
                min(run_at_ms) FILTER (WHERE state = 'scheduled') AS sooner FROM added GROUP BY queue) g)
    INTO v_rest, v_runs, v_news FROM timed t LEFT JOIN added a ON a.run = t.run;
    IF v_runs IS NOT NULL THEN
        PERFORM holdfast.remove_fronts(v_runs);
    END IF;
    FOR n IN SELECT value FROM jsonb_array_elements(coalesce(v_news, '[]')) LOOP
        PERFORM holdfast.settings(n ->> 'queue');
        PERFORM holdfast.wake(n ->> 'queue', (n ->> 'waiting')::bigint);
        IF n ->> 'sooner' IS NOT NULL THEN
            PERFORM holdfast.wake_for(p_now, n ->> 'queue', (n ->> 'sooner')::bigint);
        END IF;
    END LOOP;
    FOR n IN SELECT value FROM jsonb_array_elements(coalesce(v_rest, '[]')) LOOP
        PERFORM holdfast.follow_one(p_now, n);
    END LOOP;
END $$;

-- One next job that has a key, waits for others, or whose id somebody else has: then it gets one of its own.
CREATE OR REPLACE FUNCTION holdfast.follow_one(p_now bigint, n jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s holdfast.successor := ROW(n ->> 'queue', n ->> 'id', (n ->> 'run')::bigint, n ->> 'task',
        coalesce((n ->> 'priority')::integer, 0), n ->> 'key', (n ->> 'at')::bigint, p_now, true, 'always', true,
        (n ->> 'ttl')::bigint, NULL, NULL, n -> 'overrides', decode(n ->> 'headers', 'hex'),
        decode(n ->> 'payload', 'hex'));
    v_open integer;
    v_failed text[];
BEGIN
    LOOP
        IF n ? 'blockers' THEN
            SELECT w.v_open, w.v_failed INTO v_open, v_failed
            FROM holdfast.wait_for(p_now, s.run, n -> 'blockers', n ->> 'policy') w;
        END IF;
        EXIT WHEN holdfast.insert(p_now, s, 'enqueue', NULL, (n ->> 'chain')::bigint, (n ->> 'position')::integer,
            v_open, v_failed, n ->> 'policy');
        s.id := right(s.id || '/' || s.run, 1024);
    END LOOP;
    PERFORM holdfast.recheck(p_now, s.queue, s.key);
    PERFORM holdfast.wake_for(p_now, s.queue, s.run_at_ms);
END $$;

-- The chain that ends with a later job: its first job's row as it was. Nothing when it goes on, or is not there any more.
CREATE OR REPLACE FUNCTION holdfast.end_chain(p_now bigint, j holdfast.job, p_state text) RETURNS holdfast.job
LANGUAGE plpgsql AS $$
DECLARE
    f holdfast.job;
    q holdfast.queue;
    v_kept bigint;
BEGIN
    SELECT * INTO f FROM holdfast.job WHERE run = j.chain FOR UPDATE;
    IF NOT FOUND THEN  -- nothing else will take its jobs along
        q := holdfast.settings(j.queue);
        UPDATE holdfast.job SET expires_at_ms = p_now + coalesce(result_ttl_ms, q.result_ttl_ms)
        WHERE chain = j.chain AND expires_at_ms IS NULL AND finished_at_ms IS NOT NULL;
        PERFORM holdfast.fade(ARRAY(SELECT run FROM holdfast.job WHERE chain = j.chain));
        RETURN NULL;
    ELSIF f.chain_state IS DISTINCT FROM 'open' OR f.tail IS DISTINCT FROM j.run THEN
        RETURN NULL;
    END IF;
    q := holdfast.settings(f.queue);
    v_kept := CASE p_state WHEN 'failed' THEN q.failed_ms WHEN 'completed' THEN coalesce(q.completed_ms, 0) ELSE 0 END;
    UPDATE holdfast.job t
    SET chain_state = p_state, ended_at_ms = p_now, held = t.held AND p_state <> 'cancelled', result = l.result,
        error = CASE WHEN p_state = 'failed' THEN l.error END,
        free_at_ms = CASE WHEN p_state = 'cancelled' THEN p_now ELSE p_now + coalesce(t.result_ttl_ms, q.result_ttl_ms) END,
        expires_at_ms = greatest(p_now + greatest(coalesce(t.result_ttl_ms, q.result_ttl_ms), v_kept),
            coalesce(t.dedup_until_ms, 0))
    FROM holdfast.job l WHERE t.run = f.run AND l.run = j.run;
    PERFORM holdfast.fade(ARRAY[f.run]);
    RETURN f;
END $$;

-- What hangs at the end of a chain, by the row of its first job: its successor, its dependants, and who waits for it.
CREATE OR REPLACE FUNCTION holdfast.chain_over(p_now bigint, f holdfast.job, p_state text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.succeed(p_now, f);
    PERFORM holdfast.report(p_now, ARRAY[f.run]);
    PERFORM holdfast.tell_watchers(p_now, f, p_state);
END $$;

-- complete, from outside: the chain is over with this result, whoever works on its current job. By its id, it is the chain
-- that the id stands for when nobody else is at it: one that ended meanwhile, and has a successor, is not the answer.
CREATE OR REPLACE FUNCTION holdfast.complete_chain(p_clock bigint, p_queue text, p_id text, p_run bigint,
    p_result bytea, p_ttl bigint, p_request text) RETURNS text LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_answer jsonb;
    v_first bigint;
    v_reply text;
BEGIN
    IF p_request IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.request ' || p_request, 0));
        SELECT other INTO v_answer FROM holdfast.request WHERE id = p_request;
        IF FOUND THEN
            RETURN v_answer ->> 'reply';
        END IF;
    END IF;
    v_first := holdfast.first_of_chain(v_now, p_queue, p_id, p_run);
    v_reply := holdfast.complete_first(v_now, v_first, p_result, p_ttl);
    IF v_reply <> 'ok' THEN
        PERFORM holdfast.still_first(v_now, p_queue, p_id, p_run, v_first);
    END IF;
    IF p_request IS NOT NULL THEN
        INSERT INTO holdfast.request (id, at_ms, other) VALUES (p_request, v_now, jsonb_build_object('reply', v_reply));
    END IF;
    RETURN v_reply;
END $$;

-- What is meant is still the chain that was found, or else the call is done again.
CREATE OR REPLACE FUNCTION holdfast.still_first(p_now bigint, p_queue text, p_id text, p_run bigint, p_first bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_first IS DISTINCT FROM holdfast.first_of_chain(p_now, p_queue, p_id, p_run) THEN
        RAISE lock_not_available USING MESSAGE = 'the id has just got another run; try again';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast.complete_first(p_now bigint, p_first bigint, p_result bytea, p_ttl bigint)
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
    PERFORM holdfast.hold(ARRAY[j.queue]);
    SELECT * INTO j FROM holdfast.job WHERE run = j.run FOR UPDATE;
    IF j.run IS NULL OR j.run IS DISTINCT FROM (SELECT coalesce(tail, run) FROM holdfast.job WHERE run = p_first) THEN
        RAISE lock_not_available USING MESSAGE = 'the chain has just gone on, or is gone; try again';
    ELSIF j.state IN ('completed', 'failed', 'cancelled') THEN
        RETURN 'wrong_state';
    END IF;
    q := holdfast.settings(j.queue);
    PERFORM holdfast.let_go(j);
    UPDATE holdfast.job
    SET state = 'completed', exit = 'outside', result = p_result, finished_at_ms = p_now, error = NULL,
        free_at_ms = p_now + coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms),
        expires_at_ms = CASE WHEN holdfast.goes_alone(position, coalesce(p_ttl, result_ttl_ms))
            THEN greatest(p_now + greatest(coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms),
                coalesce(q.completed_ms, 0)), coalesce(dedup_until_ms, 0)) END
    WHERE run = j.run;
    PERFORM holdfast.displace(j);
    PERFORM holdfast.fade(ARRAY[j.run]);
    PERFORM holdfast.append(p_now, 'complete', ARRAY[j.run], 'outside', j.state = 'active');
    PERFORM holdfast.over(p_now, j, 'completed');
    PERFORM holdfast.recheck(p_now, j.queue, j.key);
    IF j.state = 'active' THEN
        PERFORM holdfast.stop(j, 'completed_elsewhere');
        PERFORM holdfast.wake(j.queue, 1);
    END IF;
    RETURN 'ok';
END $$;

-- These chains, and with p_cascade every chain that waits for one of them: the runs of their first jobs.
CREATE OR REPLACE FUNCTION holdfast.cascade(p_first bigint, p_cascade boolean) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    WITH RECURSIVE found(run) AS (
        SELECT p_first
        UNION
        SELECT coalesce(j.chain, j.run) FROM found
            CROSS JOIN LATERAL (SELECT run FROM holdfast.blocker WHERE blocker = found.run AND state IS NULL OFFSET 0) b
            JOIN holdfast.job j ON j.run = ANY (ARRAY[b.run])
        WHERE p_cascade
    )
    SELECT array_agg(run) FROM found
$$;

-- Every job of the chain is gone; refused while a job outside waits for it, unless that goes too.
CREATE OR REPLACE FUNCTION holdfast.delete_chain(p_clock bigint, p_queue text, p_id text, p_run bigint,
    p_cascade boolean, OUT v_reply text, OUT v_chains integer, OUT v_waiting jsonb) LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_first bigint := holdfast.first_of_chain(v_now, p_queue, p_id, p_run);
    v_firsts bigint[];
    v_runs bigint[];
    f holdfast.job;
BEGIN
    v_reply := 'ok';
    v_chains := 0;
    IF v_first IS NULL THEN
        v_reply := 'missing';
        RETURN;
    END IF;
    v_runs := holdfast.jobs_of(holdfast.cascade(v_first, true));
    PERFORM holdfast.hold(ARRAY(SELECT DISTINCT queue FROM holdfast.job WHERE run = ANY (v_runs)));
    v_firsts := holdfast.cascade(v_first, p_cascade);
    PERFORM holdfast.hold_whole(v_firsts);
    PERFORM holdfast.still_first(v_now, p_queue, p_id, p_run, v_first);
    SELECT jsonb_agg(DISTINCT jsonb_build_array(j.queue, j.id, j.run)) INTO v_waiting
    FROM holdfast.blocker b JOIN holdfast.job j ON j.run = ANY (ARRAY[b.run]) WHERE b.blocker = v_first AND b.state IS NULL;
    IF v_waiting IS NOT NULL AND NOT p_cascade THEN
        v_reply := 'wrong_state';
        RETURN;
    END IF;
    FOR f IN SELECT * FROM holdfast.job WHERE run = ANY (v_firsts) ORDER BY run DESC LOOP
        PERFORM holdfast.remove_chain(v_now, f);
        v_chains := v_chains + 1;
    END LOOP;
END $$;

-- Every job of these chains, by the runs of their first jobs.
CREATE OR REPLACE FUNCTION holdfast.jobs_of(p_firsts bigint[]) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_firsts || ARRAY(SELECT run FROM holdfast.job WHERE chain = ANY (p_firsts) AND run <> ALL (p_firsts));
END $$;

-- Every job of these chains is locked, each chain from its end, as whoever ends one does it.
CREATE OR REPLACE FUNCTION holdfast.hold_whole(p_firsts bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM holdfast.job WHERE run = ANY (holdfast.jobs_of(p_firsts)) ORDER BY coalesce(chain, run), run DESC FOR UPDATE;
END $$;

-- Every job of the chain is gone; whoever waits for it hears that it was cancelled.
-- A job with which it has just gone on is not waited for: the call is done again.
CREATE OR REPLACE FUNCTION holdfast.remove_chain(p_now bigint, f holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_runs bigint[] := holdfast.jobs_of(ARRAY[f.run]);
BEGIN
    PERFORM 1 FROM holdfast.job WHERE run = ANY (v_runs) FOR UPDATE NOWAIT;
    PERFORM holdfast.report(p_now, ARRAY[f.run], true);
    FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (v_runs) ORDER BY run LOOP
        PERFORM holdfast.remove(p_now, j);
    END LOOP;
    IF holdfast.outcome(f) = 'active' THEN
        PERFORM holdfast.drop_successor(p_now, f, false);
    END IF;
END $$;

-- The job is gone; its handler, if it runs, is told to stop.
CREATE OR REPLACE FUNCTION holdfast.remove(p_now bigint, j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.append_gone(p_now, 'delete', NULL, ARRAY[j.run]);
    DELETE FROM holdfast.job WHERE run = j.run;
    DELETE FROM holdfast.expiry WHERE queue = j.queue AND at_ms = j.expires_at_ms AND runs = ARRAY[j.run];
    DELETE FROM holdfast.blocker WHERE run = j.run;
    PERFORM holdfast.displace(j);
    IF j.state = 'active' THEN
        PERFORM holdfast.stop(j, 'deleted');
        PERFORM holdfast.wake(j.queue, 1);
    END IF;
    PERFORM holdfast.recheck(p_now, j.queue, j.key);
    PERFORM holdfast.tell_watchers(p_now, j, 'cancelled');
END $$;
