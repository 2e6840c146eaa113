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
    v_lanes boolean;
BEGIN
    v_lanes := EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = p_queue AND ready_at_ms <= v_now);
    IF v_lanes THEN
        PERFORM holdfast.hold(ARRAY[p_queue]);
    END IF;
    v_runs := ARRAY(SELECT run FROM holdfast.job WHERE queue = p_queue AND expires_at_ms <= v_now
        ORDER BY expires_at_ms LIMIT p_limit FOR UPDATE SKIP LOCKED);
    IF cardinality(v_runs) < p_limit THEN
        v_crowd := ARRAY(SELECT run FROM holdfast.job
            WHERE queue = p_queue AND state = 'failed' AND run <= (SELECT run FROM holdfast.job
                WHERE queue = p_queue AND state = 'failed' ORDER BY run DESC LIMIT 1 OFFSET q.failed_count)
                AND (NOT held OR free_at_ms <= v_now) AND run <> ALL (v_runs)
            ORDER BY run LIMIT p_limit - cardinality(v_runs) FOR UPDATE SKIP LOCKED);
        v_runs := v_runs || v_crowd;
    END IF;
    IF cardinality(v_runs) > 0 THEN
        PERFORM holdfast.append_gone(v_now, 'expire', v_runs);
        DELETE FROM holdfast.job WHERE run = ANY (v_runs);
    END IF;
    PERFORM holdfast.trim(v_now, p_history, p_limit);
    DELETE FROM holdfast.request WHERE id IN (SELECT id FROM holdfast.request WHERE at_ms <= v_now - p_remembered
        ORDER BY at_ms LIMIT p_limit FOR UPDATE SKIP LOCKED);
    IF v_lanes THEN
        PERFORM holdfast.recheck_due(v_now, p_queue, p_limit);
    END IF;
    RETURN cardinality(v_runs);
END $$;

-- The log keeps about so many events, and up to ten times as many that a reader lacks; how far it was trimmed stays
-- known.
CREATE OR REPLACE FUNCTION holdfast.trim(p_now bigint, p_history bigint, p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_last bigint;
    v_read record;
    v_cut bigint;
BEGIN
    SELECT seq INTO v_last FROM holdfast.event ORDER BY xid DESC, seq DESC LIMIT 1;
    IF v_last IS NULL OR v_last <= p_history
        OR (SELECT seq FROM holdfast.event ORDER BY xid, seq LIMIT 1) > v_last - p_history THEN
        RETURN;
    END IF;
    PERFORM 1 FROM holdfast.meta WHERE name = 'trimmed' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;  -- somebody else is at it
    END IF;
    SELECT * INTO v_read FROM holdfast.read_by_all(p_now);
    WITH oldest AS MATERIALIZED (
        SELECT xid, seq FROM holdfast.event ORDER BY xid, seq LIMIT p_limit
    ), gone AS (
        DELETE FROM holdfast.event e USING oldest o
        WHERE e.xid = o.xid AND e.seq = o.seq AND o.seq <= v_last - p_history
            AND (v_read.xid IS NULL OR (o.xid, o.seq) <= (v_read.xid, v_read.seq) OR o.seq <= v_last - 10 * p_history)
        RETURNING e.seq
    )
    SELECT max(seq) INTO v_cut FROM gone;
    UPDATE holdfast.meta SET value = greatest(value::bigint, v_cut)::text WHERE name = 'trimmed' AND v_cut IS NOT NULL;
END $$;
