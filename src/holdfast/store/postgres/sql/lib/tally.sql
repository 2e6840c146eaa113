-- How many jobs a queue has in each state. Every change of a state, new job or removed job is counted by `count_move`.

-- So many jobs of the queue were in one state and are in another; NULL: nowhere.
CREATE OR REPLACE FUNCTION holdfast.count_move(p_queue text, p_was text, p_state text, p_count bigint DEFAULT 1) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_count <> 0 AND p_was IS DISTINCT FROM p_state THEN
        INSERT INTO holdfast.move (queue, was, state, count) VALUES (p_queue, p_was, p_state, p_count);
    END IF;
END $$;

-- Every queue's counts, at the cost of the few moves that were not folded yet.
CREATE OR REPLACE FUNCTION holdfast.queue_counts() RETURNS TABLE (queue text, state text, count bigint)
LANGUAGE plpgsql STABLE /* planner */ AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT c.queue, c.state, sum(c.count)::bigint FROM (
        SELECT queue, state, count FROM holdfast.tally
        UNION ALL SELECT queue, was, -count FROM holdfast.move WHERE was IS NOT NULL
        UNION ALL SELECT queue, state, count FROM holdfast.move WHERE state IS NOT NULL) c GROUP BY c.queue, c.state;
END $$;

-- Moves are added up, a bounded number of them, by one at a time. True when there may be more.
CREATE OR REPLACE FUNCTION holdfast.fold_moves(p_limit integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_folded bigint;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM holdfast.move) THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM holdfast.meta WHERE name = 'folding' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;  -- another call is at it
    END IF;
    WITH gone AS (
        DELETE FROM holdfast.move WHERE ctid = ANY (ARRAY(SELECT ctid FROM holdfast.move LIMIT p_limit))
        RETURNING queue, was, state, count
    ), added AS (
        INSERT INTO holdfast.tally (queue, state, count)
        SELECT queue, state, sum(count) FROM (
            SELECT queue, was AS state, -count AS count FROM gone WHERE was IS NOT NULL
            UNION ALL SELECT queue, state, count FROM gone WHERE state IS NOT NULL) d
        GROUP BY queue, state HAVING sum(count) <> 0
        ON CONFLICT (queue, state) DO UPDATE SET count = tally.count + excluded.count
    )
    SELECT count(*) INTO v_folded FROM gone;
    RETURN v_folded >= p_limit;
END $$;

-- Make the counts what is there, also after jobs were changed from outside; return those that were wrong. What is there and what
-- was counted are of one snapshot, and the difference is one more move: so calls that work meanwhile do not matter.
CREATE OR REPLACE FUNCTION holdfast.recount() RETURNS TABLE (queue text, state text, counted bigint, there bigint)
LANGUAGE plpgsql /* planner */ AS $$
#variable_conflict use_column
BEGIN
    PERFORM 1 FROM holdfast.meta WHERE name = 'folding' FOR UPDATE;  -- two at once would add the difference twice
    RETURN QUERY WITH deferred AS MATERIALIZED (  -- claimed, and their rows do not say so
        SELECT j.queue, count(*) FROM holdfast.grip g CROSS JOIN unnest(g.runs) AS r(run)
            CROSS JOIN LATERAL (SELECT queue, state, attempts FROM holdfast.job WHERE run = r.run OFFSET 0) j
        WHERE g.claimed_at_ms IS NOT NULL AND j.state = 'waiting' AND j.attempts = 0 GROUP BY j.queue
    ), ended AS MATERIALIZED (  -- and completed
        SELECT j.queue, count(*) FROM holdfast.expiry x CROSS JOIN unnest(x.runs) AS r(run)
            CROSS JOIN LATERAL (SELECT queue, state, attempts FROM holdfast.job WHERE run = r.run OFFSET 0) j
        WHERE x.block IS NOT NULL AND j.state = 'waiting' AND j.attempts = 0 GROUP BY j.queue
    ), wrong AS MATERIALIZED (
        SELECT queue, state, coalesce(c.count, 0) AS counted, coalesce(j.count, 0) AS there
        FROM holdfast.queue_counts() c FULL JOIN (
            SELECT queue, state, sum(count)::bigint AS count FROM (
                SELECT queue, state, count(*) FROM holdfast.job GROUP BY queue, state
                UNION ALL SELECT queue, 'waiting', -count FROM deferred UNION ALL SELECT queue, 'active', count FROM deferred
                UNION ALL SELECT queue, 'waiting', -count FROM ended UNION ALL SELECT queue, 'completed', count FROM ended) u
            GROUP BY queue, state HAVING sum(count) <> 0) j USING (queue, state)
        WHERE coalesce(c.count, 0) <> coalesce(j.count, 0)
    ), added AS (
        INSERT INTO holdfast.move (queue, state, count) SELECT queue, state, there - counted FROM wrong
    )
    SELECT queue, state, counted, there FROM wrong ORDER BY queue, state;
END $$;

-- When the waiting job that comes first became claimable: of each priority, of those with a key and of the suspects the one
-- with the earliest time is looked at, not what waits behind it.
CREATE OR REPLACE FUNCTION holdfast.oldest_waiting(p_queue text) RETURNS bigint LANGUAGE plpgsql STABLE /* planner */ AS $$
DECLARE
    v_rank integer := -2147483648;
    v_run bigint;
    v_runs bigint[] := '{}';
BEGIN
    LOOP
        SELECT rank, run INTO v_rank, v_run FROM holdfast.ready WHERE queue = p_queue AND key IS NULL AND rank > v_rank
        ORDER BY rank, run_at_ms, run LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_runs := v_runs || v_run;
    END LOOP;
    v_rank := -2147483648;
    LOOP
        SELECT rank, run INTO v_rank, v_run FROM holdfast.suspect WHERE queue = p_queue AND rank > v_rank
        ORDER BY rank, run_at_ms, run LIMIT 1;
        EXIT WHEN NOT FOUND;
        v_runs := v_runs || v_run;
    END LOOP;
    v_runs := v_runs || ARRAY(SELECT run FROM holdfast.ready WHERE queue = p_queue AND key || '' IS NOT NULL
        ORDER BY run_at_ms, run LIMIT 1);
    RETURN (SELECT min(ready_at_ms) FROM holdfast.job WHERE run = ANY (v_runs));
END $$;
