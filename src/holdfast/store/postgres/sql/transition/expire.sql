-- expire: completed | failed | cancelled -> nothing
-- guard: its retention is over
-- effects: remove the run and everything that points to it, append event

-- Finished runs past their retention are gone, and so are old events and answers.
CREATE OR REPLACE FUNCTION holdfast.expire(p_clock bigint, p_queue text, p_limit integer, p_history bigint,
    OUT runs bigint, OUT by_age bigint, OUT by_count bigint, OUT more boolean)
RETURNS record LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    q holdfast.queue := holdfast.ensure_queue(p_queue);
    v_crowded bigint := 0;
    v_lanes boolean;
BEGIN
    v_lanes := EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue AND NOT cooling AND ready_at_ms <= v_now
            ORDER BY ready_at_ms OFFSET 0)
        OR EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue AND cooling AND ready_at_ms <= v_now
            ORDER BY ready_at_ms OFFSET 0);
    IF v_lanes THEN
        PERFORM holdfast.lock_queues(ARRAY[p_queue]);
    END IF;
    SELECT * INTO runs, by_age FROM holdfast.expire_runs(v_now, 'age', holdfast.due_runs(v_now, p_queue, p_limit));
    by_count := 0;
    IF q.failed_count IS NOT NULL AND runs < p_limit THEN
        SELECT * INTO v_crowded, by_count FROM holdfast.expire_runs(v_now, 'count',
            holdfast.surplus_runs(v_now, p_queue, q.failed_count, p_limit - runs::integer));
        runs := runs + v_crowded;
    END IF;
    more := holdfast.sweep(v_now, p_history, p_limit) OR runs >= p_limit;
    -- The places of records that are gone go, too.
    DELETE FROM holdfast.ready WHERE ctid = ANY (ARRAY(SELECT r.ctid FROM (SELECT ctid, run FROM holdfast.ready
        WHERE queue = p_queue AND key IS NULL ORDER BY rank, run_at_ms, run LIMIT 100) r
        WHERE NOT EXISTS (SELECT 1 FROM holdfast.job j WHERE j.run = r.run OFFSET 0)));
    IF v_lanes THEN
        PERFORM holdfast.refresh_due_lanes(v_now, p_queue, p_limit);
        more := more OR EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue AND cooling AND ready_at_ms <= v_now
            ORDER BY ready_at_ms OFFSET 0);
    END IF;
END $$;

-- The runs are gone, with the others of their chains; of how many, and of how many dead letters.
CREATE OR REPLACE FUNCTION holdfast.expire_runs(p_now bigint, p_cause text, p_runs bigint[], OUT gone bigint, OUT failed bigint)
RETURNS record LANGUAGE plpgsql AS $$
DECLARE
    v_runs bigint[] := p_runs;
    e holdfast.event;
BEGIN
    gone := cardinality(v_runs);
    failed := 0;
    IF gone = 0 THEN
        RETURN;
    END IF;
    v_runs := v_runs || ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (holdfast.jobs_of_chains(p_runs)) AND position > 0
        AND run <> ALL (p_runs) ORDER BY run FOR UPDATE SKIP LOCKED);  -- a chain goes as a whole
    -- Those whose end is not in their rows (complete_deferred.sql) are alike, and of one queue.
    SELECT min(j.queue), array_agg(r.run), array_agg(j.id), array_agg(j.task), array_agg(j.priority), array_agg(j.run_at_ms)
    INTO e.queue, e.runs, e.ids, e.tasks, e.priorities, e.run_ats
    FROM (SELECT run FROM unnest(v_runs) AS u(run) ORDER BY run) r CROSS JOIN LATERAL (SELECT queue, id, task, priority, run_at_ms
        FROM holdfast.job WHERE run = r.run AND state = 'waiting' OFFSET 0) j;
    IF e.runs IS NOT NULL THEN
        e.at_ms := p_now; e.transition := 'expire'; e.cause := p_cause; e.attempt := 1;
        PERFORM holdfast.append_pack(e);
    END IF;
    IF coalesce(cardinality(e.runs), 0) < cardinality(v_runs) THEN
        PERFORM holdfast.append_removals(p_now, 'expire', p_cause, ARRAY(SELECT run FROM unnest(v_runs) AS u(run)
            WHERE e.runs IS NULL OR run <> ALL (e.runs)));
    END IF;
    WITH removed AS (
        DELETE FROM holdfast.job WHERE run = ANY (v_runs)
        RETURNING queue, CASE WHEN state = 'waiting' THEN 'completed' ELSE state END AS state  -- see complete_deferred.sql
    ), counted AS (
        INSERT INTO holdfast.move (queue, was, count) SELECT queue, state, count(*) FROM removed GROUP BY queue, state
    )
    SELECT count(*), count(*) FILTER (WHERE state = 'failed') INTO gone, failed FROM removed;
    DELETE FROM holdfast.blocker WHERE run = ANY (v_runs);
END $$;

-- The next runs whose time is over, locked. Those that another call has locked are looked at again later.
CREATE OR REPLACE FUNCTION holdfast.due_runs(p_now bigint, p_queue text, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    e record;
    v_completed boolean;
    v_due bigint[];
    v_found bigint[] := '{}';
    v_locked bigint[];
BEGIN
    FOREACH v_completed IN ARRAY ARRAY[true, false] LOOP
        FOR e IN
            SELECT ctid, at_ms, runs, block FROM holdfast.expiry
            WHERE queue = p_queue AND completed = v_completed AND at_ms <= p_now
            ORDER BY at_ms LIMIT p_limit FOR UPDATE SKIP LOCKED
        LOOP
            EXIT WHEN cardinality(v_found) >= p_limit;
            v_due := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (e.runs)
                AND (expires_at_ms <= p_now OR e.block IS NOT NULL AND state = 'waiting' AND attempts = 0)
                ORDER BY run LIMIT p_limit - cardinality(v_found) FOR UPDATE SKIP LOCKED);
            v_found := v_found || v_due;
            v_locked := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (e.runs)
                AND (expires_at_ms <= p_now OR e.block IS NOT NULL AND state = 'waiting' AND attempts = 0) AND run <> ALL (v_due));
            CONTINUE WHEN e.block IS NOT NULL AND cardinality(v_locked) > 0;  -- it has the ends of those that are left
            DELETE FROM holdfast.expiry WHERE ctid = e.ctid;
            IF cardinality(v_locked) > 0 THEN
                INSERT INTO holdfast.expiry VALUES (p_queue, e.at_ms, v_locked, v_completed);
            END IF;
        END LOOP;
    END LOOP;
    RETURN v_found;
END $$;

-- The oldest dead letters beyond the number that the queue keeps, locked; one that still holds its id stays.
CREATE OR REPLACE FUNCTION holdfast.surplus_runs(p_now bigint, p_queue text, p_most bigint, p_limit integer)
RETURNS bigint[] LANGUAGE sql AS $$
    SELECT ARRAY(SELECT run FROM holdfast.job
        WHERE queue = p_queue AND failed_run <= (SELECT failed_run FROM holdfast.job
            WHERE queue = p_queue AND failed_run IS NOT NULL ORDER BY failed_run DESC LIMIT 1 OFFSET p_most)
            AND (NOT held OR free_at_ms <= p_now)
        ORDER BY failed_run LIMIT p_limit FOR UPDATE SKIP LOCKED);
$$;

-- False for a later job of a chain, without a TTL of its own, which goes with its chain; but a chain may be endless.
CREATE OR REPLACE FUNCTION holdfast.expires_alone(p_position integer, p_ttl bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_position = 0 OR p_position >= @WITH_CHAIN OR p_ttl IS NOT NULL
$$;

-- Those of the runs that are over will be removed in their time.
CREATE OR REPLACE FUNCTION holdfast.note_expiry(p_runs bigint[]) RETURNS void LANGUAGE sql AS $$
    INSERT INTO holdfast.expiry (queue, at_ms, runs, completed)
    SELECT queue, expires_at_ms, array_agg(run), state = 'completed' FROM holdfast.job
    WHERE run = ANY (p_runs) AND expires_at_ms IS NOT NULL GROUP BY queue, expires_at_ms, state = 'completed'
$$;

-- Old events and answers are gone and moves are added up, in bounded steps. True when there are more of them.
CREATE OR REPLACE FUNCTION holdfast.sweep(p_clock bigint, p_history bigint, p_limit integer)
RETURNS boolean LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_more boolean := holdfast.trim_log(v_now, p_history, p_limit * 20);  -- a job leaves four events and more
    v_answers bigint;
BEGIN
    WITH gone AS (
        DELETE FROM holdfast.request WHERE id = ANY (ARRAY(SELECT id FROM holdfast.request WHERE at_ms <= v_now - @REMEMBERED_MS
            ORDER BY at_ms LIMIT p_limit FOR UPDATE SKIP LOCKED)) RETURNING 1
    )
    SELECT count(*) INTO v_answers FROM gone;
    RETURN holdfast.fold_moves(p_limit * 20) OR v_more OR v_answers >= p_limit;
END $$;
