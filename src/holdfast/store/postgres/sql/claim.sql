-- claim: waiting -> active
-- guard: the queue's limits allow it, the worker has room, and a suspect no more company than it may have
-- effects: count an attempt, give the lease, append event

-- What one queue gave, and when it may give more.
-- p_held: how many jobs the session holds already; v_room: how many more it may have after this.
CREATE OR REPLACE FUNCTION holdfast.claim(p_now bigint, p_session text, p_queue text, p_room integer, p_held integer,
    p_only_suspects boolean, OUT v_runs bigint[], OUT v_next bigint, OUT v_more boolean, OUT v_room integer,
    OUT v_suspects boolean) LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue := holdfast.settings(p_queue);
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
        PERFORM holdfast.recheck_due(p_now, p_queue, 200);
    END IF;
    IF q.concurrency IS NOT NULL THEN
        v_allowed := least(v_allowed, q.concurrency - holdfast.running(p_queue));
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
            FROM holdfast.claim_in_turns(p_now, p_session, p_queue, v_allowed - cardinality(v_runs));
        ELSE
            v_got := holdfast.claim_keyless(p_now, p_session, p_queue, v_allowed - cardinality(v_runs));
            v_taken := v_got.v_taken;
            v_refused := v_got.v_refused;
        END IF;
        v_runs := v_runs || v_taken;
        EXIT WHEN v_refused = 0;
    END LOOP;
    v_more := cardinality(v_runs) = v_allowed AND v_allowed = v_room;
    v_room := v_room - cardinality(v_runs);
    IF cardinality(v_runs) < v_allowed AND NOT p_only_suspects AND (v_late OR EXISTS (SELECT 1 FROM holdfast.ready r
        WHERE r.queue = p_queue AND r.key IS NULL AND age(r.xmin) < 0)) THEN
        v_next := p_now;  -- left to the next turn, see `next`
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
    IF q.concurrency IS NOT NULL AND q.concurrency <= holdfast.running(p_queue) THEN
        v_next := NULL;  -- only the end of a running job makes room, and that wakes whoever is parked
    END IF;
END $$;

-- The next jobs without a key are the session's, in their order; those that may not start have failed instead.
CREATE OR REPLACE FUNCTION holdfast.claim_keyless(p_now bigint, p_session text, p_queue text, p_room integer,
    OUT v_taken bigint[], OUT v_refused integer) LANGUAGE plpgsql AS $$
DECLARE
    f holdfast.front;
    v_known boolean;
    v_begin timestamptz := clock_timestamp();
    v_before bigint := holdfast.walked();
    v_found record;
    v_far boolean;
BEGIN
    SELECT * INTO f FROM holdfast.front WHERE queue = p_queue;
    v_known := FOUND;
    IF f.looked_at < v_begin - greatest(1, 20 * f.took) * interval '1 second' THEN
        f := NULL;  -- a transaction that ended late may have put something in front of it
    END IF;
    v_found := holdfast.next(p_queue, p_room, f);
    IF f.queue IS NOT NULL AND cardinality(v_found.v_runs) < p_room THEN
        f := NULL;
        v_begin := clock_timestamp();
        v_before := holdfast.walked();
        v_found := holdfast.next(p_queue, p_room, f);
    END IF;
    v_far := holdfast.walked() - v_before > 2 * cardinality(v_found.v_runs) + 3000;
    IF v_known OR v_far THEN
        PERFORM holdfast.move_front(p_queue, f, v_far, extract(epoch FROM clock_timestamp() - v_begin),
            v_found.v_runs[1]);
    END IF;
    v_taken := v_found.v_runs;
    v_refused := cardinality(v_found.v_bad);
    IF v_refused > 0 THEN
        PERFORM holdfast.refuse(p_now, run) FROM unnest(v_found.v_bad) AS b(run);
        v_taken := ARRAY(SELECT run FROM unnest(v_taken) WITH ORDINALITY AS t(run, ord)
            WHERE run <> ALL (v_found.v_bad) ORDER BY ord);
    END IF;
    IF cardinality(v_taken) > 0 THEN
        DELETE FROM holdfast.ready WHERE ctid = ANY (v_found.v_places);
        PERFORM holdfast.take(p_now, p_session, v_taken);
    END IF;
END $$;

-- The waiting jobs without a key that come next, locked, in their order, and their rows in it; a part of them is bad.
-- What a transaction with a higher number than this one has put there is left to the next turn: in the log, which is
-- in the order of transactions, a job must not be claimed before it was enqueued.
-- The order is followed, and each job looked up by its key: written so that there is no other plan, see `reached`.
CREATE OR REPLACE FUNCTION holdfast.next(p_queue text, p_room integer, f holdfast.front, OUT v_runs bigint[],
    OUT v_places tid[], OUT v_bad bigint[]) LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(array_agg(n.run), '{}'), array_agg(n.place),
        coalesce(array_agg(n.run) FILTER (WHERE n.refusal IS NOT NULL), '{}')
    INTO v_runs, v_places, v_bad FROM (
        SELECT r.place, r.run, j.refusal FROM (
            SELECT ctid AS place, run FROM holdfast.ready
            WHERE queue = p_queue AND key IS NULL AND age(xmin) >= 0
                AND (rank, run_at_ms, run) >= (coalesce(f.rank, -2000000000), coalesce(f.run_at_ms, 0), coalesce(f.run, 0))
            ORDER BY rank, run_at_ms, run OFFSET 0) r
        CROSS JOIN LATERAL (
            SELECT CASE WHEN t.failures = 0 AND t.stalls = 0 AND t.timeouts = 0 AND t.releases = 0 AND t.headers IS NULL
                AND t.overrides IS NULL AND t.error IS NULL THEN NULL ELSE holdfast.refusal(t) END AS refusal
            FROM holdfast.job t WHERE t.run = r.run AND t.state = 'waiting' FOR UPDATE SKIP LOCKED) j
        LIMIT p_room) n;
END $$;

-- How far this session has walked in the order so far, dead entries included. A page whose entries PostgreSQL already
-- knows to be dead counts for a few.
CREATE OR REPLACE FUNCTION holdfast.walked() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN pg_stat_get_xact_tuples_returned('holdfast.ready_plain'::regclass)
        + 15 * pg_stat_get_xact_blocks_fetched('holdfast.ready_plain'::regclass);
END $$;

-- The next claim begins where this one did, if it went far from `f` on: what is in front of it is dead, and some old
-- transaction keeps PostgreSQL from forgetting it. The mark moves seldom, for its own old versions are kept, too.
CREATE OR REPLACE FUNCTION holdfast.move_front(p_queue text, f holdfast.front, p_far boolean, p_took double precision,
    p_first bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF f.queue IS NULL AND (NOT p_far OR p_first IS NULL) THEN
        DELETE FROM holdfast.front WHERE queue = p_queue;
    ELSIF f.queue IS NULL THEN
        INSERT INTO holdfast.front SELECT p_queue, -priority, run_at_ms, run, clock_timestamp(), p_took
        FROM holdfast.job WHERE run = p_first
        ON CONFLICT (queue) DO UPDATE SET rank = excluded.rank, run_at_ms = excluded.run_at_ms, run = excluded.run,
            looked_at = excluded.looked_at, took = excluded.took;
    ELSIF p_far THEN
        UPDATE holdfast.front SET rank = -j.priority, run_at_ms = j.run_at_ms, run = j.run
        FROM holdfast.job j WHERE j.run = p_first
            AND front.queue = p_queue AND (front.rank, front.run_at_ms, front.run) = (f.rank, f.run_at_ms, f.run);
    END IF;
END $$;

-- These waiting runs are the session's now.
CREATE OR REPLACE FUNCTION holdfast.take(p_now bigint, p_session text, p_runs bigint[]) RETURNS void
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
    )
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, worker, key, priority,
        run_at_ms, failures, stalls, timeouts, releases, wait_ms)
    SELECT p_now, queue, id, run, attempts, 'claim', 'active', task, p_session, key, priority, run_at_ms,
        failures, stalls, timeouts, releases, greatest(0, p_now - ready_at_ms)
    FROM taken ORDER BY run;
END $$;

-- The job of a lane, or of those without a key, that comes first; locked. What came in too late is left, see `next`.
CREATE OR REPLACE FUNCTION holdfast.first_of(p_queue text, p_key text) RETURNS holdfast.job LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    IF p_key IS NULL THEN
        SELECT t.* INTO j FROM (SELECT run FROM holdfast.ready WHERE queue = p_queue AND key IS NULL AND age(xmin) >= 0
            ORDER BY rank, run_at_ms, run OFFSET 0) r
        CROSS JOIN LATERAL (SELECT * FROM holdfast.job
            WHERE run = r.run AND state = 'waiting' FOR UPDATE SKIP LOCKED) t LIMIT 1;
    ELSE
        SELECT t.* INTO j FROM (SELECT run FROM holdfast.ready WHERE queue = p_queue AND key = p_key AND age(xmin) >= 0
            ORDER BY rank, run_at_ms, run OFFSET 0) r
        CROSS JOIN LATERAL (SELECT * FROM holdfast.job
            WHERE run = r.run AND state = 'waiting' FOR UPDATE SKIP LOCKED) t LIMIT 1;
        IF j.run IS NULL THEN  -- records that are gone leave no place
            DELETE FROM holdfast.ready r WHERE r.queue = p_queue AND r.key = p_key
                AND NOT EXISTS (SELECT 1 FROM holdfast.job t WHERE t.run = r.run OFFSET 0);
        END IF;
    END IF;
    RETURN j;
END $$;

-- Whoever was served least recently comes first; jobs without a key are one group with its own turn. v_late: a lane has
-- nothing but what came in too late.
CREATE OR REPLACE FUNCTION holdfast.claim_in_turns(p_now bigint, p_session text, p_queue text, p_room integer,
    OUT v_taken bigint[], OUT v_refused integer, OUT v_late boolean) LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
    l record;
    j holdfast.job;
    v_any boolean := true;
BEGIN
    v_taken := '{}';
    v_refused := 0;
    v_late := false;
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
    WHILE v_any AND cardinality(v_taken) < p_room LOOP
        v_any := false;
        FOR l IN
            SELECT key, turn FROM (
                (SELECT key, turn FROM holdfast.lane WHERE queue = p_queue AND ready
                 ORDER BY turn LIMIT p_room - cardinality(v_taken))
                UNION ALL
                SELECT NULL, q.keyless_turn WHERE EXISTS (SELECT 1 FROM holdfast.ready
                    WHERE queue = p_queue AND key IS NULL)) ready
            ORDER BY turn, key NULLS LAST LIMIT p_room - cardinality(v_taken)
        LOOP
            j := holdfast.first_of(p_queue, l.key);
            IF j.run IS NULL THEN
                v_late := v_late OR EXISTS (SELECT 1 FROM holdfast.ready r
                    WHERE r.queue = p_queue AND r.key = l.key AND age(r.xmin) < 0);
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
            PERFORM holdfast.displace(j);
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

-- Why a waiting job may not start: its record is broken, or a limit was lowered below what it has used. A suspect is tried
-- again whatever its stalls: it may have suffered them in company.
CREATE OR REPLACE FUNCTION holdfast.refusal(j holdfast.job) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy;
BEGIN
    IF holdfast.torn(j.headers) OR holdfast.torn(j.error) OR jsonb_typeof(j.overrides) <> 'object' THEN
        RETURN 'corrupt';
    END IF;
    p := holdfast.rule(j);
    RETURN CASE WHEN j.failures >= p.failures THEN 'failure' WHEN j.timeouts >= p.timeouts THEN 'timeout'
        WHEN j.stalls >= p.stalls AND j.company IS NULL THEN 'stall' WHEN j.releases >= p.releases THEN 'release' END;
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

-- True when a worker that has just parked would find something in the queues that it asked: what was committed while it
-- parked woke nobody. Of the queues that it did not ask it has no room for a job.
-- Transactions from p_before on began when it had parked, and have seen that. v_before is such a number.
CREATE OR REPLACE FUNCTION holdfast.claimable(p_session text, p_queues text[], p_before text, OUT v_found boolean, OUT v_before text)
LANGUAGE plpgsql STABLE /* planner */ AS $$
BEGIN
    v_before := coalesce(p_before, pg_snapshot_xmax(pg_current_snapshot())::text);
    v_found := EXISTS (
        SELECT 1 FROM holdfast.session s JOIN holdfast.serving v ON v.id = ANY (ARRAY[s.id])
            JOIN holdfast.queue q ON q.name = ANY (ARRAY[v.queue])
        WHERE s.id = p_session AND v.queue = ANY (p_queues) AND s.parked IS NOT NULL AND NOT s.dead AND NOT q.paused AND q.rate_count IS NULL
            AND (EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = v.queue AND r.key IS NULL
                    AND (p_before IS NULL OR age(r.xmin) > age(p_before::xid8::xid)) OFFSET 0)
                OR EXISTS (SELECT 1 FROM holdfast.lane l WHERE l.queue = v.queue AND l.ready
                    AND (p_before IS NULL OR age(l.xmin) > age(p_before::xid8::xid)) ORDER BY l.turn OFFSET 0))
            AND (q.concurrency IS NULL OR q.concurrency > holdfast.running(v.queue)));
END $$;
