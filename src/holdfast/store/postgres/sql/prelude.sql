-- What every transition needs. Locks are taken in one order: request, queue rows by name, pulse, own session, job rows: by
-- run, then the first jobs of their chains by run, then those who wait for them by run (`lock_rank`). Whatever else comes
-- later is skipped when locked, or tried without waiting.

CREATE OR REPLACE FUNCTION holdfast.clock(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- The queue's row, made when it is not there yet.
CREATE OR REPLACE FUNCTION holdfast.settings(p_queue text) RETURNS holdfast.queue LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
BEGIN
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue;
    IF NOT FOUND THEN
        INSERT INTO holdfast.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
        SELECT * INTO q FROM holdfast.queue WHERE name = p_queue;
    END IF;
    RETURN q;
END $$;

-- Nobody else changes a lane or a limit of these queues until this transaction is over.
CREATE OR REPLACE FUNCTION holdfast.hold(p_queues text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.queue (name)
    SELECT DISTINCT name FROM unnest(p_queues) AS u(name)
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.queue q WHERE q.name = u.name OFFSET 0) ORDER BY name ON CONFLICT DO NOTHING;
    PERFORM 1 FROM holdfast.queue WHERE name = ANY (p_queues) ORDER BY name FOR UPDATE;
END $$;

-- Where rows are locked together: who ends a job has that one first, then the first of its chain, then those who wait for it.
CREATE OR REPLACE FUNCTION holdfast.lock_rank(p_state text, p_chain_state text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_state = 'blocked' THEN 2 WHEN p_chain_state IS NOT NULL THEN 1 ELSE 0 END
$$;

-- The queues whose rows the end of these runs may need, besides those given: where their chains began or go on, and where
-- others wait for them.
CREATE OR REPLACE FUNCTION holdfast.reached(p_queues text[], p_runs bigint[], p_nexts text[]) RETURNS text[]
LANGUAGE sql STABLE AS $$
    WITH first AS MATERIALIZED (SELECT coalesce(chain, run) AS run FROM holdfast.job WHERE run = ANY (p_runs))
    SELECT array_agg(name) FROM (
        SELECT unnest(p_queues) AS name
        UNION SELECT next::jsonb ->> 'queue' FROM unnest(p_nexts) AS n(next) WHERE next IS NOT NULL
        UNION SELECT j.queue FROM first JOIN holdfast.job j ON j.run = ANY (ARRAY[first.run])
        UNION SELECT j.queue FROM first
            CROSS JOIN LATERAL (SELECT run FROM holdfast.blocker WHERE blocker = first.run AND state IS NULL OFFSET 0) b
            JOIN holdfast.job j ON j.run = ANY (ARRAY[b.run])) found
$$;

-- True when a claim of this queue has more to look at than the order of its jobs.
CREATE OR REPLACE FUNCTION holdfast.strict(q holdfast.queue) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN q.concurrency IS NOT NULL OR q.rate_count IS NOT NULL OR q.key_concurrency IS NOT NULL
        OR q.key_rate_count IS NOT NULL OR EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = q.name);
END $$;

-- Every run has its event. p_ran says that an attempt ended with it.
CREATE OR REPLACE FUNCTION holdfast.append(p_now bigint, p_transition text, p_runs bigint[], p_cause text DEFAULT NULL,
    p_ran boolean DEFAULT false, p_type text DEFAULT NULL, p_signature text DEFAULT NULL, p_payload boolean DEFAULT false)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, cause, task, worker, key, priority,
        run_at_ms, failures, stalls, timeouts, releases, wait_ms, run_ms, error_type, error_signature, payload)
    SELECT p_now, queue, id, run, attempts, p_transition, state, p_cause, task,
        CASE WHEN p_ran OR p_transition = 'claim' THEN session END, key, priority, run_at_ms,
        failures, stalls, timeouts, releases,
        CASE WHEN p_transition = 'claim' THEN greatest(0, p_now - ready_at_ms) END,
        CASE WHEN p_ran THEN greatest(0, p_now - claimed_at_ms) END,
        p_type, p_signature, CASE WHEN p_payload THEN payload END
    FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run;
END $$;

-- The same for runs that are about to be removed.
CREATE OR REPLACE FUNCTION holdfast.append_gone(p_now bigint, p_transition text, p_cause text, p_runs bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, cause, task, key, priority, run_at_ms,
        failures, stalls, timeouts, releases)
    SELECT p_now, queue, id, run, attempts, p_transition, NULL, p_cause, task, key, priority, run_at_ms,
        failures, stalls, timeouts, releases
    FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run;
END $$;

-- One listener hears a message, once this transaction is committed.
CREATE OR REPLACE FUNCTION holdfast.ring(p_address text, p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_address ~ '^hf_[0-9a-f]+:[0-9]+$' AND octet_length(p_message) < 7800 THEN
        PERFORM pg_notify(split_part(p_address, ':', 1), split_part(p_address, ':', 2) || ':' || p_message);
    END IF;
END $$;

-- Enough parked workers for so many jobs are woken, no more. One that is locked is awake already.
CREATE OR REPLACE FUNCTION holdfast.wake(p_queue text, p_jobs bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s record;
    jobs bigint := p_jobs;
BEGIN
    IF jobs <= 0 THEN
        RETURN;
    END IF;
    IF current_setting('hf.joined', true) = 'on' THEN  -- told at the caller's commit, when others may have parked
        PERFORM holdfast.ring(w.address, '') FROM holdfast.serving v JOIN holdfast.session w ON w.id = ANY (ARRAY[v.id])
        WHERE v.queue = p_queue AND NOT w.dead;
        RETURN;
    END IF;
    FOR s IN
        SELECT w.id, w.parked, w.address FROM holdfast.serving v JOIN holdfast.session w ON w.id = ANY (ARRAY[v.id])
        WHERE v.queue = p_queue AND w.parked IS NOT NULL AND NOT w.dead
        ORDER BY w.heard_at_ms LIMIT 64 FOR UPDATE OF w SKIP LOCKED
    LOOP
        UPDATE holdfast.session SET parked = NULL WHERE id = s.id;
        PERFORM holdfast.ring(s.address, '');
        jobs := jobs - s.parked;
        EXIT WHEN jobs <= 0;
    END LOOP;
END $$;

-- Those of the runs that wait have their place in the order, or among the suspects.
CREATE OR REPLACE FUNCTION holdfast.place(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_count integer;
BEGIN
    INSERT INTO holdfast.ready (queue, key, rank, run_at_ms, run)
    SELECT queue, key, -priority, run_at_ms, run FROM holdfast.job
    WHERE run = ANY (p_runs) AND state = 'waiting' AND company IS NULL ORDER BY run;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < cardinality(p_runs) THEN
        INSERT INTO holdfast.suspect (queue, key, rank, run_at_ms, run, company)
        SELECT queue, key, -priority, run_at_ms, run, company FROM holdfast.job
        WHERE run = ANY (p_runs) AND state = 'waiting' AND company IS NOT NULL ORDER BY run;
    END IF;
    PERFORM holdfast.remove_fronts(p_runs);
END $$;

-- No claim begins behind one of these runs.
CREATE OR REPLACE FUNCTION holdfast.remove_fronts(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.front) THEN
        DELETE FROM holdfast.front f WHERE EXISTS (SELECT 1 FROM holdfast.job j WHERE j.run = ANY (p_runs)
            AND j.queue = f.queue AND (-j.priority, j.run_at_ms, j.run) < (f.rank, f.run_at_ms, f.run));
    END IF;
END $$;

-- A run that waited, as the row says, has no place any more.
CREATE OR REPLACE FUNCTION holdfast.displace(j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF j.state <> 'waiting' THEN
        RETURN;
    ELSIF j.company IS NOT NULL THEN
        DELETE FROM holdfast.suspect WHERE queue = j.queue AND rank = -j.priority AND run_at_ms = j.run_at_ms
            AND run = j.run;
    ELSIF j.key IS NULL THEN
        DELETE FROM holdfast.ready WHERE queue = j.queue AND key IS NULL AND rank = -j.priority
            AND run_at_ms = j.run_at_ms AND run = j.run;
    ELSE
        DELETE FROM holdfast.ready WHERE queue = j.queue AND key = j.key AND rank = -j.priority
            AND run_at_ms = j.run_at_ms AND run = j.run;
    END IF;
END $$;

-- The runs that a worker holds in a queue, or in any.
CREATE OR REPLACE FUNCTION holdfast.holding(p_session text, p_queue text DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT r.run FROM (SELECT number, runs FROM holdfast.grip WHERE session = p_session OFFSET 0) g
        CROSS JOIN unnest(g.runs) AS r(run)
        CROSS JOIN LATERAL (SELECT queue, state, grip FROM holdfast.job WHERE run = r.run OFFSET 0) j
    WHERE j.state = 'active' AND j.grip = g.number AND (p_queue IS NULL OR j.queue = p_queue)
$$;

-- False for a later job of a chain, without a TTL of its own, which goes with its chain; but a chain may be endless.
CREATE OR REPLACE FUNCTION holdfast.goes_alone(p_position integer, p_ttl bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_position NOT BETWEEN 1 AND 999 OR p_ttl IS NOT NULL
$$;

-- Those of the runs that are over will be removed in their time.
CREATE OR REPLACE FUNCTION holdfast.fade(p_runs bigint[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO holdfast.expiry (queue, at_ms, runs) SELECT queue, expires_at_ms, array_agg(run)
    FROM holdfast.job WHERE run = ANY (p_runs) AND expires_at_ms IS NOT NULL GROUP BY queue, expires_at_ms
$$;

-- How many jobs of a queue are running, on all workers.
CREATE OR REPLACE FUNCTION holdfast.running(p_queue text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM holdfast.serving v CROSS JOIN holdfast.holding(v.id, p_queue) WHERE v.queue = p_queue
$$;

-- A run is no longer held; the last one of a grip takes it along.
CREATE OR REPLACE FUNCTION holdfast.let_go(j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM holdfast.grip WHERE number = j.grip FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE holdfast.grip SET remaining = remaining - 1 WHERE number = j.grip;
        DELETE FROM holdfast.grip WHERE number = j.grip AND remaining <= 0;
    END IF;
END $$;

-- Somebody knows of a job that came back to the queue: now, or when to wake for it.
CREATE OR REPLACE FUNCTION holdfast.wake_for(p_now bigint, p_queue text, p_run_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_run_at <= p_now
        OR p_run_at = (SELECT due_at_ms FROM holdfast.job WHERE queue = p_queue AND due_at_ms IS NOT NULL
            ORDER BY due_at_ms LIMIT 1) THEN
        PERFORM holdfast.wake(p_queue, 1);
    END IF;
END $$;

-- The handler of an active run will hear that it must stop.
CREATE OR REPLACE FUNCTION holdfast.stop(j holdfast.job, p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.abort (session, run, attempt, queue, id, reason)
    VALUES (j.session, j.run, j.attempts, j.queue, j.id, p_reason)
    ON CONFLICT (session, run, attempt) DO UPDATE SET reason = excluded.reason;
    PERFORM holdfast.ring(address, '') FROM holdfast.session WHERE id = j.session AND address IS NOT NULL;
END $$;

-- Whoever waits for this run, or for one that it absorbed, hears that it is over, and will find the result.
CREATE OR REPLACE FUNCTION holdfast.tell(p_now bigint, p_queue text, p_id text, p_first bigint, p_last bigint,
    p_state text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w record;
    told boolean := false;
BEGIN
    FOR w IN
        DELETE FROM holdfast.watch WHERE run BETWEEN p_first AND p_last AND queue = p_queue AND id = p_id
        RETURNING run, address
    LOOP
        told := true;
        PERFORM holdfast.ring(w.address, json_build_array(json_build_array(p_queue, p_id, w.run, p_state))::text);
    END LOOP;
    IF told THEN
        UPDATE holdfast.job SET expires_at_ms = p_now + 60000 WHERE run = p_first AND expires_at_ms < p_now + 60000;
        IF FOUND THEN
            PERFORM holdfast.fade(ARRAY[p_first]);
        END IF;
    END IF;
END $$;

-- The same for many runs, none of which absorbed another: each listener hears of all its own in as few messages as may be.
CREATE OR REPLACE FUNCTION holdfast.tell_all(p_now bigint, p_runs bigint[], p_state text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    w record;
    v_address text;
    v_list text;
    v_told bigint[] := '{}';
BEGIN
    FOR w IN
        WITH gone AS (DELETE FROM holdfast.watch WHERE run = ANY (p_runs) RETURNING run, address, queue, id)
        SELECT run, address, json_build_array(queue, id, run, p_state)::text AS message FROM gone ORDER BY address, run
    LOOP
        v_told := v_told || w.run;
        IF w.address = v_address AND octet_length(v_list) + octet_length(w.message) < 7000 THEN
            v_list := v_list || ',' || w.message;
        ELSE
            PERFORM holdfast.ring(v_address, '[' || v_list || ']');
            v_address := w.address;
            v_list := w.message;
        END IF;
    END LOOP;
    PERFORM holdfast.ring(v_address, '[' || v_list || ']');
    UPDATE holdfast.job SET expires_at_ms = p_now + 60000 WHERE run = ANY (v_told) AND expires_at_ms < p_now + 60000;
    IF FOUND THEN
        PERFORM holdfast.fade(v_told);
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast.tell_watchers(p_now bigint, j holdfast.job, p_state text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.watch) THEN
        PERFORM holdfast.tell(p_now, j.queue, j.id, j.run, greatest(j.run, coalesce(j.absorbed_to, j.run)), p_state);
    END IF;
END $$;

-- The run that holds an id, locked. A finished one whose TTL is over lets go of it here. One that let go of it while it was
-- waited for, to its successor, is not the answer: then there is another.
CREATE OR REPLACE FUNCTION holdfast.holder(p_now bigint, p_queue text, p_id text) RETURNS holdfast.job
LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    LOOP
        SELECT * INTO j FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held FOR UPDATE;
        EXIT WHEN FOUND OR NOT EXISTS (SELECT 1 FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held);
    END LOOP;
    IF j.free_at_ms <= p_now THEN
        UPDATE holdfast.job SET held = false WHERE run = j.run;
        RETURN NULL;
    END IF;
    RETURN j;
END $$;

-- The latest run of an id that does not hold it and is still kept.
CREATE OR REPLACE FUNCTION holdfast.latest(p_queue text, p_id text, p_now bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT run FROM holdfast.job
        WHERE (queue, id, run) >= (p_queue, p_id, 0) AND (queue, id, run) <= (p_queue, p_id, 9223372036854775807)
            AND NOT held AND (expires_at_ms IS NULL OR expires_at_ms > p_now)
        ORDER BY queue DESC, id DESC, run DESC LIMIT 1);
END $$;

-- The run that answers for an id: the one that holds it, or else its latest.
CREATE OR REPLACE FUNCTION holdfast.current(p_now bigint, p_queue text, p_id text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        (SELECT run FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held
            AND (expires_at_ms IS NULL OR expires_at_ms > p_now)),
        holdfast.latest(p_queue, p_id, p_now));
END $$;

-- The run that holds an id, or else its latest that is still kept; locked.
CREATE OR REPLACE FUNCTION holdfast.answering(p_now bigint, p_queue text, p_id text) RETURNS holdfast.job
LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job := holdfast.holder(p_now, p_queue, p_id);
BEGIN
    IF j.run IS NULL THEN
        SELECT * INTO j FROM holdfast.job WHERE run = holdfast.latest(p_queue, p_id, p_now) FOR UPDATE;
    END IF;
    RETURN j;
END $$;

-- What holds for one job: its task's policy with the caller's overrides above it.
CREATE OR REPLACE FUNCTION holdfast.rule(j holdfast.job) RETURNS holdfast.policy LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy;
    o jsonb;
BEGIN
    SELECT * INTO p FROM holdfast.policy WHERE queue = j.queue AND task = coalesce(j.task, '');
    IF NOT FOUND THEN
        p.failures := 3; p.stalls := 3; p.timeouts := 3; p.releases := 100;
        p.initial := 2; p.multiplier := 2; p.maximum := 300; p.jitter := 0;
    END IF;
    IF jsonb_typeof(j.overrides) = 'object' THEN
        p.timeout_ms := coalesce((j.overrides ->> 'timeout_ms')::bigint, p.timeout_ms);
        o := j.overrides -> 'retry';
        IF jsonb_typeof(o) = 'object' THEN
            p.failures := (o ->> 'failures')::integer; p.stalls := (o ->> 'stalls')::integer;
            p.timeouts := (o ->> 'timeouts')::integer; p.releases := (o ->> 'releases')::integer;
            p.initial := (o ->> 'initial')::double precision; p.multiplier := (o ->> 'multiplier')::double precision;
            p.maximum := (o ->> 'maximum')::double precision; p.jitter := (o ->> 'jitter')::double precision;
        END IF;
    END IF;
    RETURN p;
END $$;

-- How long a run waits after its nth failure or timeout.
CREATE OR REPLACE FUNCTION holdfast.backoff_ms(p holdfast.policy, p_nth integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    exponent double precision := least(p_nth - 1, 1023);
    seconds double precision := p.maximum;
BEGIN
    IF p.initial <= 0 OR p.maximum <= 0 THEN
        RETURN 0;
    END IF;
    IF ln(p.initial) + exponent * ln(p.multiplier) < ln(p.maximum) + 1 THEN
        seconds := least(p.initial * power(p.multiplier, exponent), p.maximum);
    END IF;
    RETURN round(seconds * (1 + p.jitter * (random() * 2 - 1)) * 1000)::bigint;
END $$;

-- An error that the store itself has to tell, as it is kept.
CREATE OR REPLACE FUNCTION holdfast.error(p_type text, p_kind text, p_message text) RETURNS bytea LANGUAGE sql AS $$
    SELECT convert_to(json_build_object('type', p_type, 'message', p_message, 'kind', p_kind, 'traceback', '',
        'fields', '{}'::json)::text, 'UTF8')
$$;

-- The signatures of the store's own errors, as `ErrorRecord.signature` has them.
CREATE OR REPLACE FUNCTION holdfast.signature(p_type text, p_message text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE p_type || '|' || regexp_replace(p_message, '[0-9]+', '#', 'g')
        /* signatures */
    END
$$;

-- True for bytes that cannot be the JSON object that was stored, such as one that was cut short.
CREATE OR REPLACE FUNCTION holdfast.torn(p_blob bytea) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size integer := octet_length(p_blob);
BEGIN
    RETURN CASE WHEN p_blob IS NULL THEN false WHEN size < 2 THEN true
        ELSE get_byte(p_blob, 0) <> 123 OR get_byte(p_blob, size - 1) <> 125 END;
END $$;

-- The row of one run of an id, or of the run that absorbed it.
CREATE OR REPLACE FUNCTION holdfast.find(p_queue text, p_id text, p_run bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        (SELECT run FROM holdfast.job WHERE run = p_run AND queue = p_queue AND id = p_id),
        (SELECT run FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held
            AND run + 0 <= p_run AND absorbed_to >= p_run),
        (SELECT run FROM holdfast.job WHERE (queue, id, run) >= (p_queue, p_id, 0) AND (queue, id, run) <= (p_queue, p_id, p_run)
            AND NOT held AND absorbed_to >= p_run ORDER BY queue DESC, id DESC, run DESC LIMIT 1));
END $$;

-- Where the chain stands that a job began: `active` while another job of it is on; else its own state.
CREATE OR REPLACE FUNCTION holdfast.outcome(j holdfast.job) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN j.chain_state IS NULL THEN j.state WHEN j.chain_state = 'open' THEN 'active' ELSE j.chain_state END;
END $$;

-- True while the run is to be finished; it is locked, so that it stays so.
CREATE OR REPLACE FUNCTION holdfast.unfinished(p_now bigint, p_queue text, p_id text, p_run bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    SELECT * INTO j FROM holdfast.job WHERE run = holdfast.find(p_queue, p_id, p_run) FOR NO KEY UPDATE;
    RETURN FOUND AND holdfast.outcome(j) NOT IN ('completed', 'failed', 'cancelled') AND coalesce(j.expires_at_ms > p_now, true);
END $$;

-- The listener hears when the run ends. False: it has ended already, or is not there.
CREATE OR REPLACE FUNCTION holdfast.watch_run(p_clock bigint, p_queue text, p_id text, p_run bigint, p_address text)
RETURNS boolean LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_found boolean;
BEGIN
    v_found := holdfast.unfinished(v_now, p_queue, p_id, p_run);
    IF NOT v_found THEN
        PERFORM 1 FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held FOR NO KEY UPDATE;
        v_found := EXISTS (SELECT 1 FROM holdfast.successor WHERE queue = p_queue AND id = p_id AND run = p_run)
            OR holdfast.unfinished(v_now, p_queue, p_id, p_run);  -- it started while the holder's end was awaited
    END IF;
    IF v_found THEN
        INSERT INTO holdfast.watch (run, address, queue, id) VALUES (p_run, p_address, p_queue, p_id)
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN v_found;
END $$;
