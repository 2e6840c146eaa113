-- complete: active -> completed
-- guard: the caller holds the lease
-- effects: drop lease, store result, continue or end the chain, start the successor, append event, tell waiters

-- Complete a whole batch. p_nexts: the job with which each chain continues, if it does. The numbers of those entries are returned
-- that were held and are completed now.
CREATE OR REPLACE FUNCTION holdfast.complete(p_now bigint, p_session text, p_queues text[], p_ids text[],
    p_runs bigint[], p_attempts integer[], p_results bytea[], p_ttls bigint[], p_grips boolean DEFAULT true,
    p_nexts text[] DEFAULT NULL)
RETURNS integer[]
LANGUAGE plpgsql AS $$
DECLARE
    r record;
    v_pack holdfast.event;
    v_runs bigint[];
    v_special boolean;
    v_linked boolean;
    v_watched boolean;
    v_followed boolean;
    v_waited boolean;
    v_chains bigint[];
    v_claims_deferred boolean;
    v_deferred integer[] := '{}';
    j holdfast.job;
BEGIN
    SELECT EXISTS (SELECT 1 FROM holdfast.grip WHERE session = p_session AND last_run >= (SELECT min(run) FROM unnest(p_runs) AS u(run))
            ORDER BY session, last_run OFFSET 0),
        EXISTS (SELECT 1 FROM holdfast.watch WHERE run = ANY (p_runs) OFFSET 0) INTO v_claims_deferred, v_watched;
    IF v_claims_deferred AND p_grips AND p_nexts IS NULL AND NOT v_watched THEN
        v_deferred := holdfast.complete_deferred(p_now, p_session, p_queues, p_ids, p_runs, p_attempts, p_results, p_ttls);
        IF cardinality(v_deferred) = cardinality(p_runs) THEN
            RETURN v_deferred;
        END IF;
    ELSIF v_claims_deferred THEN  -- another turn that ended one of them left its row alone: what follows must see its grip as it is then
        PERFORM 1 FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run FOR UPDATE;
    END IF;
    WITH setting AS MATERIALIZED (
        SELECT name, result_ttl_ms, coalesce(completed_ms, 0) AS kept FROM holdfast.queue WHERE name = ANY (p_queues)
    ), mine AS MATERIALIZED (  -- see claim_deferred.sql
        SELECT number, claimed_at_ms, runs FROM holdfast.grip
        WHERE session = p_session AND last_run >= (SELECT min(run) FROM unnest(p_runs) AS u(run)) ORDER BY session, last_run OFFSET 0
    ), entry AS MATERIALIZED (  -- by run: rows are locked in the common order
        SELECT DISTINCT ON (e.run) e.*, q.result_ttl_ms, q.kept, m.number AS grip, m.claimed_at_ms
        FROM unnest(p_queues, p_ids, p_runs, p_attempts, p_results, p_ttls, p_nexts)
            WITH ORDINALITY AS e(queue, id, run, attempt, result, ttl, next, ord) JOIN setting q ON q.name = e.queue
            LEFT JOIN mine m ON e.run = ANY (m.runs)
        WHERE e.ord <> ALL (v_deferred)
        ORDER BY e.run, e.ord
    ), done AS (
        UPDATE holdfast.job t
        SET state = 'completed', attempts = h.attempt, session = p_session, grip = coalesce(t.grip, h.grip),
            claimed_at_ms = coalesce(t.claimed_at_ms, h.claimed_at_ms), exit = 'complete', finished_at_ms = p_now, error = NULL, error_signature = NULL,
            result = CASE WHEN h.next IS NULL THEN h.result END,
            chain = CASE WHEN h.next IS NULL THEN t.chain ELSE coalesce(t.chain, t.run) END,
            chain_state = CASE WHEN h.next IS NOT NULL AND t.position = 0 THEN 'open' END,
            free_at_ms = CASE WHEN h.next IS NULL OR t.position > 0
                THEN p_now + coalesce(h.ttl, t.result_ttl_ms, h.result_ttl_ms) END,
            expires_at_ms = CASE WHEN (h.next IS NULL OR t.position > 0)
                    AND holdfast.expires_alone(t.position, coalesce(h.ttl, t.result_ttl_ms))
                THEN greatest(p_now + greatest(coalesce(h.ttl, t.result_ttl_ms, h.result_ttl_ms), h.kept),
                    coalesce(t.dedup_until_ms, 0)) END
        FROM entry h
        WHERE t.run = ANY (ARRAY[h.run]) AND CASE t.state WHEN 'active' THEN t.attempts = h.attempt AND t.session = p_session
                WHEN 'waiting' THEN t.attempts = 0 AND h.attempt = 1 AND h.grip IS NOT NULL END
            AND NOT (t.cancel AND h.next IS NOT NULL)  -- a cancelled chain is not continued
            AND t.queue = h.queue AND t.id = h.id
        RETURNING h.ord, t.run, t.queue, t.id, t.attempts, t.task, t.session, t.key, t.priority, t.run_at_ms,
            t.failures, t.stalls, t.timeouts, t.releases, t.claimed_at_ms, t.expires_at_ms, t.absorbed_to,
            CASE WHEN p_grips THEN t.grip END AS grip, t.chain, t.position, h.next,
            t.key IS NULL AND t.attempts = 1 AND t.failures = 0 AND t.stalls = 0 AND t.timeouts = 0 AND t.releases = 0
                AND t.queue = p_queues[1] AS plain
    ), counted AS (
        INSERT INTO holdfast.move (queue, was, state, count)
        SELECT queue, 'active', 'completed', count(*) FROM done GROUP BY queue
    ), loose AS MATERIALIZED (  -- one that another turn of the session has locked is found by the next heartbeat
        SELECT g.number, g.remaining - d.count AS remaining
        FROM (SELECT grip, count(*) FROM done GROUP BY grip) d JOIN holdfast.grip g ON g.number = ANY (ARRAY[d.grip])
        FOR UPDATE OF g SKIP LOCKED
    ), loosened AS (
        UPDATE holdfast.grip g SET remaining = l.remaining FROM loose l
        WHERE g.number = ANY (ARRAY[l.number]) AND l.remaining > 0
    ), dropped AS (
        DELETE FROM holdfast.grip g USING loose l WHERE g.number = ANY (ARRAY[l.number]) AND l.remaining <= 0
    ), faded AS (
        INSERT INTO holdfast.expiry (queue, at_ms, runs, completed)
        SELECT queue, expires_at_ms, array_agg(run), true FROM done WHERE expires_at_ms IS NOT NULL
        GROUP BY queue, expires_at_ms
    ), told AS (
        INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, worker, key, priority,
            run_at_ms, failures, stalls, timeouts, releases, run_ms)
        SELECT p_now, queue, id, run, attempts, 'complete', 'completed', task, session, key, priority, run_at_ms,
            failures, stalls, timeouts, releases, greatest(0, p_now - claimed_at_ms)
        FROM done WHERE NOT plain ORDER BY run
    )
    SELECT array_agg(run) FILTER (WHERE plain) AS runs, array_agg(id) FILTER (WHERE plain) AS ids,
        array_agg(task) FILTER (WHERE plain) AS tasks, array_agg(priority) FILTER (WHERE plain) AS priorities,
        array_agg(run_at_ms) FILTER (WHERE plain) AS run_ats,
        array_agg(greatest(0, p_now - claimed_at_ms)) FILTER (WHERE plain) AS times, array_agg(ord) AS done, array_agg(run) AS every, bool_or(position > 0 AND next IS NULL) AS special,
        array_agg(key) FILTER (WHERE key IS NOT NULL) AS keys, array_agg(queue) FILTER (WHERE key IS NOT NULL) AS key_queues,
        bool_or(chain IS NOT NULL OR absorbed_to IS NOT NULL) AS linked,
        array_agg(chain) FILTER (WHERE next IS NOT NULL) AS chains,
        array_agg(position) FILTER (WHERE next IS NOT NULL) AS positions,
        array_agg(next) FILTER (WHERE next IS NOT NULL) AS nexts
    INTO r FROM (SELECT * FROM done ORDER BY run) d;
    v_runs := r.every;
    v_special := r.special;
    v_linked := r.linked;
    v_chains := r.chains;
    IF r.runs IS NOT NULL THEN
        v_pack.at_ms := p_now; v_pack.queue := p_queues[1]; v_pack.transition := 'complete'; v_pack.state := 'completed'; v_pack.attempt := 1;
        v_pack.worker := p_session; v_pack.runs := r.runs; v_pack.ids := r.ids; v_pack.tasks := r.tasks; v_pack.priorities := r.priorities;
        v_pack.run_ats := r.run_ats; v_pack.elapsed := r.times;
        PERFORM holdfast.append_pack(v_pack);
    END IF;
    SELECT EXISTS (SELECT 1 FROM holdfast.watch),
        EXISTS (SELECT 1 FROM holdfast.successor) OR EXISTS (SELECT 1 FROM holdfast.abort),
        EXISTS (SELECT 1 FROM holdfast.blocker WHERE state IS NULL)
    INTO v_watched, v_followed, v_waited;
    v_special := v_special OR v_watched AND v_linked OR v_followed;
    IF cardinality(p_runs) > cardinality(v_deferred) + coalesce(cardinality(r.done), 0) THEN
        PERFORM 1 FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run FOR UPDATE NOWAIT;  -- those left to `settle` end, too
        PERFORM holdfast.lock_chains(p_runs);
    ELSIF v_special AND (v_linked OR v_waited) THEN  -- chains that end and chains that go on, in one order
        PERFORM holdfast.lock_chains(v_runs);
    END IF;
    IF v_chains IS NOT NULL THEN
        PERFORM holdfast.continue_chains(p_now, v_chains, r.positions, r.nexts);
    END IF;
    IF v_special THEN
        FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (v_runs) ORDER BY run LOOP
            IF j.chain IS NULL OR j.result IS NOT NULL THEN
                PERFORM holdfast.after_end(p_now, j, 'completed');
            ELSIF j.position > 0 THEN  -- watchers of the first job wait for the chain
                PERFORM holdfast.notify_end(p_now, j, 'completed');
            END IF;
            DELETE FROM holdfast.abort WHERE session = p_session AND run = j.run AND attempt = j.attempts;
        END LOOP;
    ELSE
        IF v_watched THEN
            PERFORM holdfast.notify_runs(p_now, v_runs, 'completed');
        END IF;
        IF v_waited THEN
            PERFORM holdfast.resolve_blockers(p_now, ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (v_runs) AND chain IS NULL));
        END IF;
    END IF;
    IF r.keys IS NOT NULL THEN
        PERFORM holdfast.refresh_keys(p_now, k.queue, k.keys) FROM (SELECT u.queue, array_agg(u.key) AS keys
            FROM unnest(r.key_queues, r.keys) AS u(queue, key) GROUP BY u.queue ORDER BY u.queue) k;
    END IF;
    RETURN v_deferred || coalesce(r.done, '{}');
END $$;
