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
    v_done integer[];
    v_runs bigint[];
    v_special boolean;
    v_linked boolean;
    v_watched boolean;
    v_followed boolean;
    v_waited boolean;
    v_chains bigint[];
    v_positions integer[];
    v_nexts text[];
    j holdfast.job;
BEGIN
    WITH setting AS MATERIALIZED (
        SELECT name, result_ttl_ms, coalesce(completed_ms, 0) AS kept FROM holdfast.queue WHERE name = ANY (p_queues)
    ), entry AS MATERIALIZED (  -- by run: rows are locked in the common order
        SELECT DISTINCT ON (e.run) e.*, q.result_ttl_ms, q.kept
        FROM unnest(p_queues, p_ids, p_runs, p_attempts, p_results, p_ttls, p_nexts)
            WITH ORDINALITY AS e(queue, id, run, attempt, result, ttl, next, ord) JOIN setting q ON q.name = e.queue
        ORDER BY e.run, e.ord
    ), done AS (
        UPDATE holdfast.job t
        SET state = 'completed', exit = 'complete', finished_at_ms = p_now, error = NULL, error_signature = NULL,
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
        WHERE t.run = ANY (ARRAY[h.run]) AND t.attempts = h.attempt AND t.session = p_session AND t.state = 'active'
            AND NOT (t.cancel AND h.next IS NOT NULL)  -- a cancelled chain is not continued
            AND t.queue = h.queue AND t.id = h.id
        RETURNING h.ord, t.run, t.queue, t.id, t.attempts, t.task, t.session, t.key, t.priority, t.run_at_ms,
            t.failures, t.stalls, t.timeouts, t.releases, t.claimed_at_ms, t.expires_at_ms, t.absorbed_to,
            CASE WHEN p_grips THEN t.grip END AS grip, t.chain, t.position, h.next
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
        FROM done ORDER BY run
    )
    SELECT array_agg(ord), array_agg(run ORDER BY run), bool_or(key IS NOT NULL OR position > 0 AND next IS NULL),
        bool_or(chain IS NOT NULL OR absorbed_to IS NOT NULL),
        array_agg(chain ORDER BY run) FILTER (WHERE next IS NOT NULL),
        array_agg(position ORDER BY run) FILTER (WHERE next IS NOT NULL),
        array_agg(next ORDER BY run) FILTER (WHERE next IS NOT NULL)
    INTO v_done, v_runs, v_special, v_linked, v_chains, v_positions, v_nexts FROM done;
    SELECT EXISTS (SELECT 1 FROM holdfast.watch),
        EXISTS (SELECT 1 FROM holdfast.successor) OR EXISTS (SELECT 1 FROM holdfast.abort),
        EXISTS (SELECT 1 FROM holdfast.blocker WHERE state IS NULL)
    INTO v_watched, v_followed, v_waited;
    v_special := v_special OR v_watched AND v_linked OR v_followed;
    IF v_special AND (v_linked OR v_waited) THEN  -- chains that end and chains that go on, in one order
        PERFORM holdfast.lock_chains(v_runs);
    END IF;
    IF v_chains IS NOT NULL THEN
        PERFORM holdfast.continue_chains(p_now, v_chains, v_positions, v_nexts);
    END IF;
    IF v_special THEN
        FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (v_runs) ORDER BY run LOOP
            IF j.chain IS NULL OR j.result IS NOT NULL THEN
                PERFORM holdfast.after_end(p_now, j, 'completed');
            ELSIF j.position > 0 THEN  -- watchers of the first job wait for the chain
                PERFORM holdfast.notify_end(p_now, j, 'completed');
            END IF;
            DELETE FROM holdfast.abort WHERE session = p_session AND run = j.run AND attempt = j.attempts;
            PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
        END LOOP;
    ELSE
        IF v_watched THEN
            PERFORM holdfast.notify_runs(p_now, v_runs, 'completed');
        END IF;
        IF v_waited THEN
            PERFORM holdfast.resolve_blockers(p_now, ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (v_runs) AND chain IS NULL));
        END IF;
    END IF;
    RETURN coalesce(v_done, '{}');
END $$;
