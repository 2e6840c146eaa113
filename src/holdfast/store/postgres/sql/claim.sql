-- claim: waiting -> active
-- guard: the queue's limits allow it and the worker has room
-- effects: count an attempt, give the lease, append event

-- What one queue gave, and when it may give more.
CREATE OR REPLACE FUNCTION holdfast.claim(p_now bigint, p_session text, p_queue text, p_room integer,
    OUT v_runs bigint[], OUT v_next bigint, OUT v_more boolean) LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue := holdfast.settings(p_queue);
    v_allowed integer := p_room;
    v_bucket double precision;
    v_token_at bigint;
    v_lanes boolean;
    v_taken bigint[];
    v_refused integer;
BEGIN
    v_runs := '{}';
    v_more := false;
    IF q.paused THEN
        RETURN;
    END IF;
    SELECT min(run_at_ms) INTO v_next FROM holdfast.job WHERE queue = p_queue AND state = 'scheduled';
    IF v_next <= p_now THEN
        PERFORM holdfast.promote_due(p_now, p_queue);
        SELECT min(run_at_ms) INTO v_next FROM holdfast.job WHERE queue = p_queue AND state = 'scheduled';
    END IF;
    v_lanes := EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue);
    IF v_lanes THEN
        PERFORM holdfast.recheck_due(p_now, p_queue, 200);
    END IF;
    IF q.concurrency IS NOT NULL THEN
        v_allowed := least(v_allowed, q.concurrency - (SELECT count(*) FROM holdfast.job
            WHERE queue = p_queue AND state = 'active'));
    END IF;
    IF q.rate_count IS NOT NULL THEN
        SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
        v_bucket := coalesce(q.rate_burst, greatest(1, q.rate_count));
        IF q.tokens IS NOT NULL THEN
            v_bucket := least(v_bucket,
                q.tokens + greatest(0, p_now - q.tokens_at_ms) * (q.rate_count / (q.rate_per * 1000)));
        END IF;
        v_allowed := least(v_allowed, floor(v_bucket)::integer);
    END IF;
    WHILE cardinality(v_runs) < v_allowed LOOP  -- more than once only when something that cannot start stood in front
        IF v_lanes THEN
            SELECT * INTO v_taken, v_refused
            FROM holdfast.claim_in_turns(p_now, p_session, p_queue, v_allowed - cardinality(v_runs));
        ELSE
            SELECT * INTO v_taken, v_refused
            FROM holdfast.claim_keyless(p_now, p_session, p_queue, v_allowed - cardinality(v_runs));
        END IF;
        v_runs := v_runs || v_taken;
        EXIT WHEN v_refused = 0;
    END LOOP;
    v_more := cardinality(v_runs) = v_allowed AND v_allowed = p_room;
    IF v_lanes THEN
        v_next := least(v_next, (SELECT min(ready_at_ms) FROM holdfast.lane
            WHERE queue = p_queue AND NOT cooling AND ready_at_ms IS NOT NULL));
    END IF;
    IF v_bucket IS NOT NULL THEN
        v_bucket := v_bucket - cardinality(v_runs);
        UPDATE holdfast.queue SET tokens = v_bucket, tokens_at_ms = p_now WHERE name = p_queue;
        IF v_bucket < 1 THEN
            v_token_at := p_now + ceil((1 - v_bucket) / (q.rate_count / (q.rate_per * 1000)))::bigint;
            IF EXISTS (SELECT 1 FROM holdfast.job WHERE queue = p_queue AND state = 'waiting' AND key IS NULL)
                OR EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue AND ready) THEN
                v_next := v_token_at;
            ELSIF v_next IS NOT NULL THEN
                v_next := greatest(v_next, v_token_at);
            END IF;
        END IF;
    END IF;
    IF q.concurrency IS NOT NULL AND q.concurrency <= (SELECT count(*) FROM holdfast.job
        WHERE queue = p_queue AND state = 'active') THEN
        v_next := NULL;  -- only the end of a running job makes room, and that wakes whoever is parked
    END IF;
END $$;

-- The next jobs without a key are the session's, in their order; those that may not start have failed instead.
CREATE OR REPLACE FUNCTION holdfast.claim_keyless(p_now bigint, p_session text, p_queue text, p_room integer,
    OUT v_taken bigint[], OUT v_refused integer) LANGUAGE plpgsql AS $$
DECLARE
    v_found bigint[];
    v_bad bigint[];
BEGIN
    SELECT array_agg(run), array_agg(run) FILTER (WHERE refusal IS NOT NULL) INTO v_found, v_bad FROM (
        SELECT j.run, CASE WHEN failures = 0 AND stalls = 0 AND timeouts = 0 AND releases = 0 AND headers IS NULL
            AND overrides IS NULL AND error IS NULL THEN NULL ELSE holdfast.refusal(j) END AS refusal
        FROM holdfast.job j
        WHERE queue = p_queue AND state = 'waiting' AND key IS NULL
        ORDER BY priority DESC, run_at_ms, run LIMIT p_room FOR UPDATE SKIP LOCKED) next;
    v_taken := coalesce(v_found, '{}');
    v_refused := coalesce(cardinality(v_bad), 0);
    IF v_refused > 0 THEN
        PERFORM holdfast.refuse(p_now, run) FROM unnest(v_bad) AS b(run);
        v_taken := ARRAY(SELECT run FROM unnest(v_found) WITH ORDINALITY AS f(run, ord)
            WHERE run <> ALL (v_bad) ORDER BY ord);
    END IF;
    IF cardinality(v_taken) > 0 THEN
        PERFORM holdfast.take(p_now, p_session, v_taken);
    END IF;
END $$;

-- These waiting runs are the session's now.
CREATE OR REPLACE FUNCTION holdfast.take(p_now bigint, p_session text, p_runs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH taken AS (
        UPDATE holdfast.job j
        SET state = 'active', attempts = attempts + 1, session = p_session, claimed_at_ms = p_now, exit = NULL,
            last_session = session, last_exit = exit
        WHERE run = ANY (p_runs)
        RETURNING run, queue, id, attempts, task, key, priority, run_at_ms, ready_at_ms, failures, stalls, timeouts,
            releases
    )
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, worker, key, priority,
        run_at_ms, failures, stalls, timeouts, releases, wait_ms)
    SELECT p_now, queue, id, run, attempts, 'claim', 'active', task, p_session, key, priority, run_at_ms,
        failures, stalls, timeouts, releases, greatest(0, p_now - ready_at_ms)
    FROM taken ORDER BY run;
END $$;

-- Whoever was served least recently comes first; jobs without a key are one group with its own turn.
CREATE OR REPLACE FUNCTION holdfast.claim_in_turns(p_now bigint, p_session text, p_queue text, p_room integer,
    OUT v_taken bigint[], OUT v_refused integer) LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
    l record;
    j holdfast.job;
    v_any boolean := true;
BEGIN
    v_taken := '{}';
    v_refused := 0;
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
    WHILE v_any AND cardinality(v_taken) < p_room LOOP
        v_any := false;
        FOR l IN
            SELECT key, turn FROM (
                (SELECT key, turn FROM holdfast.lane WHERE queue = p_queue AND ready
                 ORDER BY turn LIMIT p_room - cardinality(v_taken))
                UNION ALL
                SELECT NULL, q.keyless_turn WHERE EXISTS (SELECT 1 FROM holdfast.job
                    WHERE queue = p_queue AND state = 'waiting' AND key IS NULL)) ready
            ORDER BY turn, key NULLS LAST LIMIT p_room - cardinality(v_taken)
        LOOP
            IF l.key IS NULL THEN
                SELECT * INTO j FROM holdfast.job WHERE queue = p_queue AND state = 'waiting' AND key IS NULL
                ORDER BY priority DESC, run_at_ms, run LIMIT 1 FOR UPDATE SKIP LOCKED;
            ELSE
                SELECT * INTO j FROM holdfast.job WHERE queue = p_queue AND state = 'waiting' AND key = l.key
                ORDER BY priority DESC, run_at_ms, run LIMIT 1 FOR UPDATE SKIP LOCKED;
            END IF;
            IF j.run IS NULL THEN
                PERFORM holdfast.recheck(p_now, p_queue, l.key);
                CONTINUE;
            END IF;
            v_any := true;
            IF holdfast.refusal(j) IS NOT NULL THEN
                v_refused := v_refused + 1;
                PERFORM holdfast.refuse(p_now, j.run);
                CONTINUE;
            END IF;
            q.turn := q.turn + 1;
            PERFORM holdfast.take(p_now, p_session, ARRAY[j.run]);
            v_taken := v_taken || j.run;
            IF l.key IS NULL THEN
                q.keyless_turn := q.turn;
            ELSE
                PERFORM holdfast.recheck(p_now, p_queue, l.key, q.turn);
            END IF;
        END LOOP;
    END LOOP;
    UPDATE holdfast.queue SET turn = greatest(turn, q.turn), keyless_turn = q.keyless_turn WHERE name = p_queue;
END $$;

-- Why a waiting job may not start: its record is broken, or a limit was lowered below what it has used.
CREATE OR REPLACE FUNCTION holdfast.refusal(j holdfast.job) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy;
BEGIN
    IF holdfast.torn(j.headers) OR holdfast.torn(j.error) OR jsonb_typeof(j.overrides) <> 'object' THEN
        RETURN 'corrupt';
    END IF;
    p := holdfast.rule(j);
    RETURN CASE WHEN j.failures >= p.failures THEN 'failure' WHEN j.timeouts >= p.timeouts THEN 'timeout'
        WHEN j.stalls >= p.stalls THEN 'stall' WHEN j.releases >= p.releases THEN 'release' END;
END $$;

-- A waiting job at its limit is over, its handler not run.
CREATE OR REPLACE FUNCTION holdfast.refuse(p_now bigint, p_run bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_cause text;
    v_type text := 'LimitReached';
    v_message text;
    v_error bytea;
BEGIN
    SELECT * INTO j FROM holdfast.job WHERE run = p_run;
    v_cause := holdfast.refusal(j);
    v_message := 'the limit for ' || v_cause || ' was lowered';
    IF v_cause = 'corrupt' THEN
        v_type := 'CorruptRecord';
        v_message := 'the stored record of the job cannot be decoded';
    ELSE
        v_error := j.error;
    END IF;
    PERFORM holdfast.fail(p_now, j, coalesce(v_error, holdfast.error(v_type, v_cause, v_message)), v_type,
        holdfast.signature(v_type, v_message), v_cause, coalesce(j.exit, 'fail'), NULL, false, false);
END $$;

-- True when a worker that has just parked would find something: what was committed while it parked woke nobody.
CREATE OR REPLACE FUNCTION holdfast.claimable(p_session text) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (
        SELECT 1 FROM holdfast.session s JOIN holdfast.serving v ON v.id = s.id JOIN holdfast.queue q ON q.name = v.queue
        WHERE s.id = p_session AND s.parked IS NOT NULL AND NOT s.dead AND NOT q.paused AND q.rate_count IS NULL
            AND EXISTS (SELECT 1 FROM holdfast.job j
                WHERE j.queue = v.queue AND j.state = 'waiting' AND j.key IS NULL)
            AND (q.concurrency IS NULL OR q.concurrency > (SELECT count(*) FROM holdfast.job a
                WHERE a.queue = v.queue AND a.state = 'active')));
END $$;
