-- claim: waiting -> active
-- guard: the queue's limits allow it, the worker has room, and a suspect no more company than it may have
-- effects: count an attempt, give the lease, append event

-- What one queue gave, and when it may give more.
-- p_held: how many jobs the session holds already; v_room: how many more it may have after this. v_plain: of all of them, as
-- `claim_keyless` has it.
CREATE OR REPLACE FUNCTION holdfast.claim(p_now bigint, p_session text, p_queue text, p_room integer, p_held integer,
    p_only_suspects boolean, p_arrays boolean, OUT v_runs bigint[], OUT v_next bigint, OUT v_more boolean, OUT v_room integer,
    OUT v_suspects boolean, OUT v_plain holdfast.plain_claim) LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue := holdfast.ensure_queue(p_queue);
    v_allowed integer := p_room;
    v_bucket double precision;
    v_token_at bigint;
    v_lanes boolean;
    v_taken bigint[];
    v_refused integer;
    v_got record;
    v_late boolean := false;
    v_any_suspects boolean;
BEGIN
    v_runs := '{}';
    v_more := false;
    v_room := p_room;
    v_suspects := false;
    IF q.paused THEN
        RETURN;
    END IF;
    FOR i IN 1..2 LOOP
        SELECT (SELECT due_at_ms FROM holdfast.job
            WHERE queue = p_queue AND due_at_ms IS NOT NULL ORDER BY due_at_ms LIMIT 1),
            EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue),
            EXISTS (SELECT 1 FROM holdfast.suspect WHERE queue = p_queue) INTO v_next, v_lanes, v_any_suspects;
        EXIT WHEN i = 2 OR v_next IS NULL OR v_next > p_now;
        PERFORM holdfast.promote_due(p_now, p_queue);
    END LOOP;
    IF v_lanes THEN
        PERFORM holdfast.refresh_due_lanes(p_now, p_queue, @MOST_PROMOTED);
    END IF;
    IF q.concurrency IS NOT NULL THEN
        v_allowed := least(v_allowed, q.concurrency - holdfast.active_count(p_queue));
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
    IF v_any_suspects AND v_allowed > 0 THEN
        v_got := holdfast.claim_suspects(p_now, p_session, p_queue, v_allowed, p_held);
        v_runs := v_got.v_taken;
        v_suspects := v_got.v_left;
        v_next := least(v_next, v_got.v_next);
        IF cardinality(v_runs) > 0 THEN
            v_allowed := least(v_allowed, v_got.v_room);
            v_room := least(v_room, v_got.v_room);
        END IF;
    END IF;
    WHILE cardinality(v_runs) < v_allowed AND NOT p_only_suspects LOOP  -- more than once only when something that cannot start stood in front
        IF v_lanes THEN
            SELECT * INTO v_taken, v_refused, v_late
            FROM holdfast.claim_by_lane(p_now, p_session, p_queue, v_allowed - cardinality(v_runs));
        ELSE
            v_got := holdfast.claim_keyless(p_now, p_session, p_queue, v_allowed - cardinality(v_runs), p_arrays);
            v_taken := v_got.v_taken;
            v_refused := v_got.v_refused;
            v_plain := CASE WHEN cardinality(v_runs) = 0 THEN v_got.v_plain END;
        END IF;
        v_runs := v_runs || v_taken;
        EXIT WHEN v_refused = 0;
    END LOOP;
    v_more := cardinality(v_runs) = v_allowed AND v_allowed = v_room;
    v_room := v_room - cardinality(v_runs);
    IF cardinality(v_runs) < v_allowed AND NOT p_only_suspects AND (v_late OR EXISTS (SELECT 1 FROM holdfast.ready r
        WHERE r.queue = p_queue AND r.key IS NULL AND age(r.xmin) < 0 AND NOT holdfast.is_own(r.xmin))) THEN
        v_next := p_now;  -- left to the next turn, see `next_waiting`
    END IF;
    IF v_lanes THEN
        v_next := least(v_next, (SELECT ready_at_ms FROM holdfast.lane
            WHERE queue = p_queue AND NOT cooling AND ready_at_ms IS NOT NULL ORDER BY ready_at_ms LIMIT 1));
    END IF;
    IF v_bucket IS NOT NULL THEN
        v_bucket := v_bucket - cardinality(v_runs);
        UPDATE holdfast.queue SET tokens = v_bucket, tokens_at_ms = p_now WHERE name = p_queue;
        IF v_bucket < 1 THEN
            v_token_at := p_now + ceil((1 - v_bucket) / (q.rate_count / (q.rate_per * 1000)))::bigint;
            IF EXISTS (SELECT 1 FROM holdfast.ready WHERE queue = p_queue AND key IS NULL)
                OR EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue AND ready ORDER BY turn OFFSET 0)
                OR EXISTS (SELECT 1 FROM holdfast.suspect WHERE queue = p_queue) THEN
                v_next := v_token_at;
            ELSIF v_next IS NOT NULL THEN
                v_next := greatest(v_next, v_token_at);
            END IF;
        END IF;
    END IF;
    IF q.concurrency IS NOT NULL AND q.concurrency <= holdfast.active_count(p_queue) THEN
        v_next := NULL;  -- only the end of a running job makes room, and that wakes parked workers
    END IF;
END $$;

-- These waiting runs are the session's now.
CREATE OR REPLACE FUNCTION holdfast.claim_runs(p_now bigint, p_session text, p_runs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_grip bigint := nextval('holdfast.grip_number');
BEGIN
    INSERT INTO holdfast.grip (number, session, remaining, runs) VALUES (v_grip, p_session, cardinality(p_runs), p_runs);
    WITH taken AS (
        UPDATE holdfast.job j
        SET state = 'active', attempts = attempts + 1, session = p_session, grip = v_grip, claimed_at_ms = p_now,
            exit = NULL, last_session = session, last_exit = exit
        WHERE run = ANY (p_runs)
        RETURNING run, queue, id, attempts, task, key, priority, run_at_ms, ready_at_ms, failures, stalls, timeouts,
            releases
    ), counted AS (  -- all of one queue
        INSERT INTO holdfast.move (queue, was, state, count)
        SELECT min(queue), 'waiting', 'active', count(*) FROM taken HAVING count(*) > 0
    )
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, worker, key, priority,
        run_at_ms, failures, stalls, timeouts, releases, wait_ms)
    SELECT p_now, queue, id, run, attempts, 'claim', 'active', task, p_session, key, priority, run_at_ms,
        failures, stalls, timeouts, releases, greatest(0, p_now - ready_at_ms)
    FROM taken ORDER BY run;
END $$;

-- True for a job that never ran and holds nothing that could be broken: no limit keeps it from starting (`refusal`).
CREATE OR REPLACE FUNCTION holdfast.starts_freely(j holdfast.job) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT j.failures = 0 AND j.stalls = 0 AND j.timeouts = 0 AND j.releases = 0 AND j.attempts = 0
        AND (j.envelope IS NULL OR NOT holdfast.is_torn(j.envelope)) AND j.overrides IS NULL AND j.error IS NULL
$$;

-- Why a waiting job may not start: its record is broken, or a limit was lowered below what it has used. A suspect is tried
-- again, however many stalls it has: others may have caused them.
CREATE OR REPLACE FUNCTION holdfast.refusal(j holdfast.job) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy;
BEGIN
    IF holdfast.is_torn(j.envelope) OR holdfast.is_torn(j.error) OR jsonb_typeof(j.overrides) <> 'object' THEN
        RETURN 'corrupt';
    END IF;
    p := holdfast.policy_of(j);
    RETURN CASE WHEN j.failures >= p.failures THEN 'failure' WHEN j.timeouts >= p.timeouts THEN 'timeout'
        WHEN j.stalls >= p.stalls AND j.company IS NULL THEN 'stall' WHEN j.releases >= p.releases THEN 'release'
        WHEN j.snoozes >= p.snoozes THEN 'snooze' WHEN j.attempts::bigint - j.spared >= p.attempts THEN 'attempts' END;
END $$;

-- A waiting job at its limit is over, its handler not run.
CREATE OR REPLACE FUNCTION holdfast.fail_refused(p_now bigint, p_run bigint) RETURNS void LANGUAGE plpgsql AS $$
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
    PERFORM holdfast.fail(p_now, j, coalesce(v_error, holdfast.error_record(v_type, v_cause, v_message)), v_type,
        holdfast.signature(v_type, v_message), v_cause, coalesce(j.exit, 'fail'));
END $$;
