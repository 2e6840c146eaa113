-- Fast path of `complete`, for jobs whose claim is not written in their rows (claim_deferred.sql), without waiters and with small
-- results: their rows are left alone again, and the row of `expiry`, which they have in common, says how they ended.
-- test_postgres_fast_paths.py compares the two.
--
-- A run that is in a row of `expiry` with a block has ended, unless its own row says something else than that it waits for its first
-- attempt: whoever locks such a job writes its end first (`write_current_row`).

-- Complete those of the batch that may be, and return their numbers. The others are left to `complete`.
CREATE OR REPLACE FUNCTION holdfast.complete_deferred(p_now bigint, p_session text, p_queues text[], p_ids text[],
    p_runs bigint[], p_attempts integer[], p_results bytea[], p_ttls bigint[]) RETURNS integer[] LANGUAGE plpgsql AS $$
DECLARE
    r record;
    c record;
    v_grip record;
    e holdfast.event;
BEGIN
    -- All of them are locked, also those that are left to `complete`, by run, which is the common order. What they are to others is
    -- looked at when they are locked.
    SELECT array_agg(l.ord) AS ords, array_agg(l.run) AS runs, array_agg(l.id) AS ids, array_agg(l.task) AS tasks,
        array_agg(l.priority) AS priorities, array_agg(l.run_at_ms) AS run_ats, array_agg(l.result) AS results,
        array_agg(coalesce(l.ttl, l.result_ttl_ms)) AS ttls, NULL::bigint[] AS claimed_ats, min(l.run) AS first, max(l.run) AS last
    INTO r FROM (SELECT u.ord, u.run, u.result, u.ttl, j.*, j.plain AND u.attempt = 1 AND u.queue = p_queues[1]
            AND octet_length(u.result) <= 64 AND j.queue = u.queue AND j.id = u.id AS fits
        FROM (SELECT DISTINCT ON (b.run) b.* FROM unnest(p_queues, p_ids, p_runs, p_attempts, p_results, p_ttls)
            WITH ORDINALITY AS b(queue, id, run, attempt, result, ttl, ord) ORDER BY b.run, b.ord) u
        CROSS JOIN LATERAL (SELECT t.queue, t.id, t.task, t.priority, t.run_at_ms, t.result_ttl_ms, t.state = 'waiting' AND t.attempts = 0
                AND t.key IS NULL AND NOT t.cancel AND t.absorbed_to IS NULL AS plain
            FROM holdfast.job t WHERE t.run = u.run FOR UPDATE) j OFFSET 0) l
    WHERE l.fits;
    IF r.runs IS NULL OR holdfast.block_of(r.last) - holdfast.block_of(r.first) > cardinality(r.runs) / 8 + 1 THEN
        RETURN '{}';  -- runs that are far from each other would have a row each
    END IF;
    SELECT q.result_ttl_ms, coalesce(q.completed_ms, 0) AS kept, EXISTS (SELECT 1 FROM holdfast.watch w WHERE w.run = ANY (r.runs))
            OR EXISTS (SELECT 1 FROM holdfast.successor) OR EXISTS (SELECT 1 FROM holdfast.abort)
            OR EXISTS (SELECT 1 FROM holdfast.blocker WHERE state IS NULL)
            OR EXISTS (SELECT 1 FROM holdfast.meta m WHERE m.name = 'deferred_ends' AND m.value <> 'on') AS slow
    INTO c FROM holdfast.queue q WHERE q.name = p_queues[1];
    IF c.slow IS DISTINCT FROM false THEN
        RETURN '{}';
    END IF;
    SELECT number, claimed_at_ms, runs, remaining INTO v_grip FROM holdfast.grip  -- as a rule what was claimed together ends together
    WHERE session = p_session AND last_run >= r.last ORDER BY session, last_run LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF v_grip.runs = r.runs AND v_grip.remaining = cardinality(r.runs) THEN
        DELETE FROM holdfast.grip WHERE number = v_grip.number;
        r.claimed_ats := array_fill(v_grip.claimed_at_ms, ARRAY[v_grip.remaining]);
    ELSE
        WITH mine AS MATERIALIZED (  -- one that another turn of the session has locked is left to `complete`
            SELECT number, claimed_at_ms, runs, remaining FROM holdfast.grip
            WHERE session = p_session AND last_run >= r.first ORDER BY session, last_run FOR UPDATE SKIP LOCKED
        ), entry AS MATERIALIZED (
            SELECT u.*, m.number, m.claimed_at_ms FROM unnest(r.ords, r.runs, r.ids, r.tasks, r.priorities, r.run_ats, r.results, r.ttls)
                AS u(ord, run, id, task, priority, run_at, result, ttl) JOIN mine m ON u.run = ANY (m.runs)
        ), taken AS MATERIALIZED (
            SELECT number, array_agg(run) AS runs FROM entry GROUP BY number
        ), loosened AS (
            UPDATE holdfast.grip g SET remaining = m.remaining - cardinality(t.runs),
                runs = ARRAY(SELECT u.run FROM unnest(m.runs) WITH ORDINALITY AS u(run, ord) WHERE u.run <> ALL (t.runs) ORDER BY u.ord)
            FROM taken t JOIN mine m ON m.number = t.number WHERE g.number = ANY (ARRAY[t.number]) AND m.remaining > cardinality(t.runs)
        ), dropped AS (
            DELETE FROM holdfast.grip g USING taken t JOIN mine m ON m.number = t.number
            WHERE g.number = ANY (ARRAY[t.number]) AND m.remaining <= cardinality(t.runs)
        )
        SELECT array_agg(ord) AS ords, array_agg(run) AS runs, array_agg(id) AS ids, array_agg(task) AS tasks,
            array_agg(priority) AS priorities, array_agg(run_at) AS run_ats, array_agg(result) AS results, array_agg(ttl) AS ttls,
            array_agg(claimed_at_ms) AS claimed_ats
        INTO r FROM entry;
    END IF;
    IF r.runs IS NULL THEN
        RETURN '{}';
    END IF;
    WITH counted AS (
        INSERT INTO holdfast.move (queue, was, state, count) VALUES (p_queues[1], 'active', 'completed', cardinality(r.runs))
    )
    INSERT INTO holdfast.expiry (queue, at_ms, runs, completed, block, session, claimed_at_ms, finished_at_ms, free_at_ms, results)
    SELECT p_queues[1], p_now + greatest(t.ttl, c.kept), t.runs, true, t.block, p_session, t.claimed_at_ms, p_now, p_now + t.ttl,
        CASE WHEN t.results = array_fill(t.results[1], ARRAY[cardinality(t.results)]) THEN t.results[1:1] ELSE t.results END
    FROM (SELECT holdfast.block_of(u.run) AS block, u.claimed_at_ms, coalesce(u.ttl, c.result_ttl_ms) AS ttl, array_agg(u.run) AS runs,
            array_agg(u.result) AS results
        FROM unnest(r.runs, r.results, r.ttls, r.claimed_ats) AS u(run, result, ttl, claimed_at_ms) GROUP BY 1, 2, 3) t;
    e.elapsed := ARRAY(SELECT greatest(0, p_now - u.at) FROM unnest(r.claimed_ats) WITH ORDINALITY AS u(at, ord) ORDER BY u.ord);
    e.at_ms := p_now; e.queue := p_queues[1]; e.transition := 'complete'; e.state := 'completed'; e.attempt := 1; e.worker := p_session;
    e.runs := r.runs; e.ids := r.ids; e.tasks := r.tasks; e.priorities := r.priorities; e.run_ats := r.run_ats;
    PERFORM holdfast.append_pack(e);
    RETURN r.ords;
END $$;
