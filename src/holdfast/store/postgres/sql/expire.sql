-- expire: completed | failed | cancelled -> nothing
-- guard: its retention is over
-- effects: remove the run and everything that points to it, append event

-- Finished runs past their retention are gone, and so are old events and answers.
CREATE OR REPLACE FUNCTION holdfast.expire(p_clock bigint, p_queue text, p_limit integer, p_history bigint,
    p_remembered bigint) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    q holdfast.queue := holdfast.settings(p_queue);
    v_runs bigint[];
    v_crowd bigint[];
    v_others bigint[];
    v_lanes boolean;
BEGIN
    v_lanes := EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue AND ready_at_ms <= v_now);
    IF v_lanes THEN
        PERFORM holdfast.hold(ARRAY[p_queue]);
    END IF;
    v_runs := holdfast.faded(v_now, p_queue, p_limit);
    IF cardinality(v_runs) < p_limit THEN
        v_crowd := ARRAY(SELECT run FROM holdfast.job
            WHERE queue = p_queue AND failed_run <= (SELECT failed_run FROM holdfast.job
                WHERE queue = p_queue AND failed_run IS NOT NULL ORDER BY failed_run DESC LIMIT 1 OFFSET q.failed_count)
                AND (NOT held OR free_at_ms <= v_now) AND run <> ALL (v_runs)
            ORDER BY failed_run LIMIT p_limit - cardinality(v_runs) FOR UPDATE SKIP LOCKED);
        v_runs := v_runs || v_crowd;
    END IF;
    IF cardinality(v_runs) > 0 THEN
        v_others := ARRAY(SELECT run FROM holdfast.job WHERE chain = ANY (v_runs) AND position > 0 AND run <> ALL (v_runs)
            ORDER BY run FOR UPDATE SKIP LOCKED);  -- a chain goes as a whole
        v_runs := v_runs || v_others;
        PERFORM holdfast.append_gone(v_now, 'expire', v_runs);
        DELETE FROM holdfast.job WHERE run = ANY (v_runs);
        DELETE FROM holdfast.blocker WHERE run = ANY (v_runs);
    END IF;
    PERFORM holdfast.trim(v_now, p_history, p_limit * 20);  -- a job leaves four events and more
    -- Records that are gone leave no place.
    DELETE FROM holdfast.ready WHERE ctid IN (SELECT r.ctid FROM (SELECT ctid, run FROM holdfast.ready
        WHERE queue = p_queue AND key IS NULL ORDER BY rank, run_at_ms, run LIMIT 100) r
        WHERE NOT EXISTS (SELECT 1 FROM holdfast.job j WHERE j.run = r.run));
    DELETE FROM holdfast.request WHERE id IN (SELECT id FROM holdfast.request WHERE at_ms <= v_now - p_remembered
        ORDER BY at_ms LIMIT p_limit FOR UPDATE SKIP LOCKED);
    IF v_lanes THEN
        PERFORM holdfast.recheck_due(v_now, p_queue, p_limit);
    END IF;
    RETURN cardinality(v_runs);
END $$;

-- The next runs whose time is over, locked. Those of them that somebody else has locked are looked at again.
CREATE OR REPLACE FUNCTION holdfast.faded(p_now bigint, p_queue text, p_limit integer) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    e record;
    v_due bigint[];
    v_found bigint[] := '{}';
    v_locked bigint[];
BEGIN
    FOR e IN
        SELECT ctid, at_ms, runs FROM holdfast.expiry WHERE queue = p_queue AND at_ms <= p_now
        ORDER BY at_ms LIMIT p_limit FOR UPDATE SKIP LOCKED
    LOOP
        v_due := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (e.runs) AND expires_at_ms <= p_now
            ORDER BY run LIMIT p_limit - cardinality(v_found) FOR UPDATE SKIP LOCKED);
        v_found := v_found || v_due;
        v_locked := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (e.runs) AND expires_at_ms <= p_now
            AND run <> ALL (v_due));
        DELETE FROM holdfast.expiry WHERE ctid = e.ctid;
        IF cardinality(v_locked) > 0 THEN
            INSERT INTO holdfast.expiry VALUES (p_queue, e.at_ms, v_locked);
        END IF;
        EXIT WHEN cardinality(v_found) >= p_limit;
    END LOOP;
    RETURN v_found;
END $$;

-- The log keeps about so many events, and up to ten times as many that a reader lacks; how far it was trimmed stays
-- known.
CREATE OR REPLACE FUNCTION holdfast.trim(p_now bigint, p_history bigint, p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_last bigint := (SELECT seq FROM holdfast.event ORDER BY seq DESC LIMIT 1);
    v_upto bigint;
    v_cut bigint;
    v_xid text;
BEGIN
    IF v_last IS NULL OR v_last <= p_history
        OR (SELECT seq FROM holdfast.event ORDER BY seq LIMIT 1) > v_last - p_history THEN
        RETURN;
    END IF;
    PERFORM 1 FROM holdfast.meta WHERE name = 'trimmed' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;  -- somebody else is at it
    END IF;
    v_upto := greatest(least(v_last - p_history, holdfast.read_by_all(p_now)), v_last - 10 * p_history);
    WITH oldest AS MATERIALIZED (
        SELECT seq, xid FROM holdfast.event WHERE seq <= v_upto ORDER BY seq LIMIT p_limit
    ), gone AS (
        DELETE FROM holdfast.event e USING oldest o WHERE e.seq = o.seq AND e.xid = o.xid RETURNING e.xid, e.seq
    )
    SELECT max(seq), max(xid::text::bigint)::text INTO v_cut, v_xid FROM gone;
    UPDATE holdfast.meta SET value = greatest(value::bigint, v_cut)::text WHERE name = 'trimmed' AND v_cut IS NOT NULL;
    UPDATE holdfast.meta SET value = greatest(value::bigint, v_xid::bigint)::text
    WHERE name = 'trimmed_xid' AND v_xid IS NOT NULL;
END $$;
