-- Schedules: written only if they are as they were read.

-- The schedule is as given, or the word says why not. The jobs of its ticks follow in the same transaction.
CREATE OR REPLACE FUNCTION holdfast.put_schedule(p_clock bigint, p_queue text, p_name text, p_expected text,
    p_revision text, p_next_at bigint, p_body bytea, p_action jsonb DEFAULT NULL) RETURNS text LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_word text;
    v_found text;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.request ' || p_revision, 0));
    SELECT other ->> 'word' INTO v_word FROM holdfast.request WHERE id = p_revision;
    IF FOUND THEN
        RETURN v_word;
    END IF;
    PERFORM holdfast.ensure_queue(p_queue);
    v_word := 'ok';
    IF p_expected IS NULL AND p_body IS NOT NULL THEN
        INSERT INTO holdfast.schedule (queue, name, revision, next_at_ms, body)
        VALUES (p_queue, p_name, p_revision, p_next_at, p_body) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            v_word := 'stale';
        END IF;
    ELSE
        SELECT revision INTO v_found FROM holdfast.schedule WHERE queue = p_queue AND name = p_name FOR UPDATE;
        IF v_found IS DISTINCT FROM p_expected THEN
            v_word := CASE WHEN v_found IS NULL THEN 'missing' ELSE 'stale' END;
        ELSIF p_body IS NULL THEN
            DELETE FROM holdfast.schedule WHERE queue = p_queue AND name = p_name;
        ELSE
            UPDATE holdfast.schedule SET revision = p_revision, next_at_ms = p_next_at, body = p_body
            WHERE queue = p_queue AND name = p_name;
        END IF;
    END IF;
    IF v_word = 'ok' AND p_action IS NOT NULL THEN
        PERFORM holdfast.append_action(holdfast.clock(p_clock), p_queue, p_action);
    END IF;
    INSERT INTO holdfast.request (id, at_ms, other)
    VALUES (p_revision, holdfast.clock(p_clock), jsonb_build_object('word', v_word));
    RETURN v_word;
END $$;

-- The schedules whose tick has come, the earliest first, and when the next one's does; a row without a schedule when there is none.
CREATE OR REPLACE FUNCTION holdfast.due(p_clock bigint, p_queues text[], p_limit integer)
RETURNS TABLE (now bigint, queue text, name text, revision text, next_at_ms bigint, body bytea, later bigint)
LANGUAGE plpgsql STABLE /* planner */ AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_later bigint := (SELECT min(n.next_at_ms) FROM unnest(p_queues) AS q(name) CROSS JOIN LATERAL (
        SELECT next_at_ms FROM holdfast.schedule WHERE queue = q.name AND next_at_ms > v_now
        ORDER BY next_at_ms LIMIT 1) n);
BEGIN
    RETURN QUERY SELECT v_now, s.*, v_later FROM (SELECT 1) AS one LEFT JOIN LATERAL (
        SELECT d.queue, d.name, d.revision, d.next_at_ms, d.body FROM unnest(p_queues) AS q(name) CROSS JOIN LATERAL (
            SELECT * FROM holdfast.schedule WHERE queue = q.name AND next_at_ms <= v_now
            ORDER BY next_at_ms LIMIT p_limit) d
        ORDER BY d.next_at_ms LIMIT p_limit) AS s ON true;
END $$;
