-- Sessions: their begin and their end.

CREATE OR REPLACE FUNCTION holdfast.register(p_clock bigint, p_session text, p_queues text[], p_info bytea,
    p_lease bigint, p_address text) RETURNS void LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
BEGIN
    PERFORM holdfast.ensure_queue(name) FROM (SELECT DISTINCT name FROM unnest(p_queues) AS u(name) ORDER BY name) q;
    PERFORM holdfast.shift_after_outage(v_now, p_lease, false);
    INSERT INTO holdfast.session (id, info, lease_ms, started_at_ms, heard_at_ms, expires_at_ms, address)
    VALUES (p_session, p_info, p_lease, v_now, v_now, v_now + p_lease, p_address)
    ON CONFLICT (id) DO UPDATE SET info = p_info, lease_ms = p_lease, started_at_ms = v_now, heard_at_ms = v_now,
        expires_at_ms = v_now + p_lease, address = p_address, dead = false, parked = NULL,
        command = CASE WHEN NOT session.dead THEN session.command END;
    INSERT INTO holdfast.serving (queue, id) SELECT DISTINCT name, p_session FROM unnest(p_queues) AS u(name)
    ON CONFLICT DO NOTHING;
END $$;

-- What a worker is told; false when it is not alive. The log of one of its queues tells of it.
CREATE OR REPLACE FUNCTION holdfast.command(p_clock bigint, p_session text, p_command text, p_action jsonb) RETURNS boolean
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    s holdfast.session;
BEGIN
    SELECT * INTO s FROM holdfast.session WHERE id = p_session AND NOT dead AND expires_at_ms > v_now FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF s.command IS DISTINCT FROM p_command AND s.command IS DISTINCT FROM 'stop' THEN
        UPDATE holdfast.session SET command = p_command WHERE id = p_session;
        PERFORM holdfast.append_action(v_now, queue, p_action)
        FROM (SELECT min(queue) AS queue FROM holdfast.serving WHERE id = p_session) v WHERE queue IS NOT NULL;
    END IF;
    RETURN true;
END $$;

-- End a session. What it still held counts as stalled at the next reap.
CREATE OR REPLACE FUNCTION holdfast.leave(p_clock bigint, p_session text) RETURNS void LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
BEGIN
    PERFORM 1 FROM holdfast.session WHERE id = p_session FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT 1 FROM holdfast.serving v CROSS JOIN holdfast.held_runs(p_session, v.queue) WHERE v.id = p_session) THEN
        UPDATE holdfast.session SET expires_at_ms = v_now, parked = NULL WHERE id = p_session;
        RETURN;
    END IF;
    DELETE FROM holdfast.session WHERE id = p_session;
    DELETE FROM holdfast.serving WHERE id = p_session;
    DELETE FROM holdfast.grip WHERE session = p_session;
    DELETE FROM holdfast.abort WHERE session = p_session;
END $$;
