-- Fast path of `claim_by_lane`, for a queue in which no key has a job: a whole batch in one statement.
-- test_postgres_fast_paths.py compares the two.

-- The next jobs without a key are the session's, in their order; those that may not start have failed instead. v_plain: where all that
-- were taken are alike, and p_arrays, what there is to say of them; else NULL.
CREATE OR REPLACE FUNCTION holdfast.claim_keyless(p_now bigint, p_session text, p_queue text, p_room integer, p_arrays boolean,
    OUT v_taken bigint[], OUT v_refused integer, OUT v_plain holdfast.plain_claim) LANGUAGE plpgsql AS $$
DECLARE
    f holdfast.front;
    v_known boolean;
    v_begin timestamptz := clock_timestamp();
    v_before bigint := holdfast.index_walk();
    v_found record;
    v_far boolean;
    v_placed bigint[];
    v_written bigint[];
BEGIN
    SELECT * INTO f FROM holdfast.front WHERE queue = p_queue;
    v_known := FOUND;
    IF f.looked_at < v_begin - greatest(1, 20 * f.took) * interval '1 second' THEN
        f := NULL;  -- a transaction that ended late may have put something in front of it
    END IF;
    v_found := holdfast.next_waiting(p_now, p_queue, p_room, f);
    IF f.queue IS NOT NULL AND cardinality(v_found.v_runs) < p_room THEN
        f := NULL;
        v_begin := clock_timestamp();
        v_before := holdfast.index_walk();
        v_found := holdfast.next_waiting(p_now, p_queue, p_room, f);
    END IF;
    v_far := holdfast.index_walk() - v_before > 2 * cardinality(v_found.v_runs) + 3000;
    IF v_known OR v_far THEN
        PERFORM holdfast.move_front(p_queue, f, v_far, extract(epoch FROM clock_timestamp() - v_begin),
            v_found.v_runs[1]);
    END IF;
    v_taken := v_found.v_runs;
    v_refused := cardinality(v_found.v_bad);
    IF v_refused > 0 THEN
        PERFORM holdfast.fail_refused(p_now, run) FROM unnest(v_found.v_bad) AS b(run);
        v_taken := ARRAY(SELECT run FROM unnest(v_taken) WITH ORDINALITY AS t(run, ord)
            WHERE run <> ALL (v_found.v_bad) ORDER BY ord);
    END IF;
    IF cardinality(v_taken) > 0 THEN
        WITH removed AS (
            DELETE FROM holdfast.ready WHERE ctid = ANY (v_found.v_places) RETURNING run
        )
        SELECT coalesce(array_agg(run), '{}') INTO v_placed FROM removed;
        IF cardinality(v_placed) < cardinality(v_found.v_places) THEN  -- another call had claimed it, and left its row alone
            v_refused := v_refused + cardinality(v_found.v_places) - cardinality(v_placed);
            v_taken := ARRAY(SELECT run FROM unnest(v_taken) WITH ORDINALITY AS t(run, ord)
                WHERE run = ANY (v_placed) ORDER BY ord);
        END IF;
        IF v_refused = 0 AND cardinality(v_found.v_special) = 0 THEN
            PERFORM holdfast.claim_deferred(p_now, p_session, v_found.v_plain);
            IF p_arrays AND (v_found.v_plain).alike THEN
                v_plain := v_found.v_plain;
            END IF;
            RETURN;
        END IF;
        v_written := ARRAY(SELECT run FROM unnest(v_taken) WITH ORDINALITY AS t(run, ord) WHERE run = ANY (v_found.v_special) ORDER BY ord);
        v_placed := ARRAY(SELECT run FROM unnest(v_taken) WITH ORDINALITY AS t(run, ord) WHERE run <> ALL (v_written) ORDER BY ord);
        IF cardinality(v_written) > 0 THEN
            PERFORM holdfast.claim_runs(p_now, p_session, v_written);
        END IF;
        IF cardinality(v_placed) > 0 THEN
            PERFORM holdfast.claim_deferred(p_now, p_session, holdfast.plain_claim_of(p_now, p_queue, v_placed));
        END IF;
    END IF;
END $$;

-- The waiting jobs without a key that come next, locked, in their order, and their rows in it; a part of them is bad. Those that are
-- special have their claim written into their rows, see `claim_deferred`. v_plain: what there is to say of all of them.
-- What another transaction with a higher number than this one has put there is left to the next turn. SKIP LOCKED waits after all for
-- a row whose change is committed at that very moment: so a claim only ever waits for older transactions, in no circle.
-- The order is followed, and each job looked up by its key: written so that there is no other plan, see `queues_reached`.
CREATE OR REPLACE FUNCTION holdfast.next_waiting(p_now bigint, p_queue text, p_room integer, f holdfast.front, OUT v_runs bigint[],
    OUT v_places tid[], OUT v_bad bigint[], OUT v_special bigint[], OUT v_plain holdfast.plain_claim) LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(array_agg(n.run), '{}'), array_agg(n.place),
        coalesce(array_agg(n.run) FILTER (WHERE n.refusal IS NOT NULL), '{}'),
        coalesce(array_agg(n.run) FILTER (WHERE n.special), '{}'),
        array_agg(n.id), array_agg(n.task), array_agg(n.priority), array_agg(n.run_at_ms), array_agg(n.enqueued_at_ms),
        array_agg(greatest(0, p_now - n.ready_at_ms)), CASE WHEN count(n.envelope) > 0 THEN array_agg(n.envelope) END,
        array_agg(n.payload), bool_and(n.alike)
    INTO v_runs, v_places, v_bad, v_special, v_plain.ids, v_plain.tasks, v_plain.priorities, v_plain.run_ats, v_plain.enqueued_ats,
        v_plain.waits, v_plain.envelopes, v_plain.payloads, v_plain.alike FROM (
        SELECT r.place, r.run, j.* FROM (
            SELECT ctid AS place, run FROM holdfast.ready
            WHERE queue = p_queue AND key IS NULL AND (age(xmin) >= 0 OR holdfast.is_own(xmin))
                AND (rank, run_at_ms, run) >= (coalesce(f.rank, -2000000000), coalesce(f.run_at_ms, 0), coalesce(f.run, 0))
            ORDER BY rank, run_at_ms, run OFFSET 0) r
        CROSS JOIN LATERAL (
            SELECT CASE WHEN holdfast.starts_freely(t) THEN NULL ELSE holdfast.refusal(t) END AS refusal,
                t.attempts > 0 OR t.chain IS NOT NULL OR t.blockers IS NOT NULL OR t.dedup_key IS NOT NULL AS special,
                t.id, t.task, t.priority, t.run_at_ms, t.enqueued_at_ms, t.ready_at_ms,
                CASE WHEN octet_length(t.envelope) <= 8192 THEN t.envelope END AS envelope,
                CASE WHEN octet_length(t.payload) <= 8192 THEN t.payload END AS payload,
                t.overrides IS NULL AND t.checkpoint IS NULL AND t.error IS NULL AND t.snoozes = 0 AND t.spared = 0
                    AND octet_length(t.payload) <= 8192 AND coalesce(octet_length(t.envelope), 0) <= 8192 AS alike  -- an array may have 1 GB
            FROM holdfast.job t WHERE t.run = r.run AND t.state = 'waiting' FOR UPDATE SKIP LOCKED) j
        LIMIT p_room) n;
    v_plain.queue := p_queue; v_plain.runs := v_runs;
END $$;

-- How far this session has walked in the order so far, dead entries included. A page whose entries PostgreSQL already
-- knows to be dead counts for a few.
CREATE OR REPLACE FUNCTION holdfast.index_walk() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN pg_stat_get_xact_tuples_returned('holdfast.ready_plain'::regclass)
        + 15 * pg_stat_get_xact_blocks_fetched('holdfast.ready_plain'::regclass);
END $$;

-- The next claim begins where this one did, if it went far from `f` on: what is in front of it is dead, and some old
-- transaction keeps PostgreSQL from forgetting it. The mark moves seldom, for its own old versions are kept, too.
CREATE OR REPLACE FUNCTION holdfast.move_front(p_queue text, f holdfast.front, p_far boolean, p_took double precision,
    p_first bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('holdfast.front ' || p_queue, 0)) THEN
        RETURN;  -- another claim is at it, and may come to a queue whose mark this one has moved
    END IF;
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
