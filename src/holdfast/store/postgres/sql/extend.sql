-- extend: active -> active
-- guard: the session has not been reaped
-- effects: move the session's expiry

CREATE OR REPLACE FUNCTION holdfast.extend(p_clock bigint, p_session text, p_lease bigint, OUT v_evicted boolean,
    OUT v_late boolean, OUT v_aborts jsonb) LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_expires bigint;
BEGIN
    PERFORM holdfast.after_an_outage(v_now, p_lease, false);
    SELECT expires_at_ms INTO v_expires FROM holdfast.session WHERE id = p_session AND NOT dead FOR NO KEY UPDATE;
    v_evicted := NOT FOUND;
    v_late := v_expires <= v_now;
    IF NOT v_evicted THEN
        UPDATE holdfast.session SET heard_at_ms = v_now, expires_at_ms = v_now + p_lease WHERE id = p_session;
        v_aborts := holdfast.aborts(p_session);
        -- What ended without the session's own word, it does not hold any more.
        DELETE FROM holdfast.grip g WHERE g.session = p_session AND NOT EXISTS (
            SELECT 1 FROM holdfast.job j WHERE j.run = ANY (g.runs) AND j.state = 'active' AND j.grip = g.number OFFSET 0);
    END IF;
END $$;

-- What handlers of the session must be told: [queue, id, run, attempt, reason] of each.
CREATE OR REPLACE FUNCTION holdfast.aborts(p_session text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT jsonb_agg(jsonb_build_array(queue, id, run, attempt, reason)) FROM holdfast.abort
        WHERE session = p_session);
END $$;

-- When nobody at all was heard for a while, the store was away: expiries move by that gap. A while is what whoever was
-- heard last, with a lease of its own, would not have let pass. A reaper has no lease (NULL).
CREATE OR REPLACE FUNCTION holdfast.after_an_outage(p_now bigint, p_lease bigint, p_wait boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_heard bigint;
    v_last bigint;
    v_gap bigint;
BEGIN
    SELECT heard_at_ms, lease_ms INTO v_heard, v_last FROM holdfast.pulse;
    v_gap := p_now - v_heard;
    IF v_gap >= 0 AND v_gap < least(1000, coalesce(p_lease, v_last) / 6) THEN
        RETURN 0;  -- near enough; with a short lease a whole second would itself look like an outage
    END IF;
    IF p_wait THEN
        SELECT heard_at_ms, lease_ms INTO v_heard, v_last FROM holdfast.pulse FOR UPDATE;
    ELSE
        SELECT heard_at_ms, lease_ms INTO v_heard, v_last FROM holdfast.pulse FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;  -- somebody else is at it
        END IF;
    END IF;
    v_gap := p_now - v_heard;
    IF v_gap >= 0 AND v_gap < least(1000, coalesce(p_lease, v_last) / 6) THEN
        RETURN 0;
    END IF;
    UPDATE holdfast.pulse SET heard_at_ms = p_now, lease_ms = coalesce(p_lease, v_last);
    IF v_heard > 0 AND v_gap > v_last * 2 / 3 THEN
        PERFORM 1 FROM holdfast.session WHERE NOT dead ORDER BY id FOR NO KEY UPDATE;
        UPDATE holdfast.session
        SET expires_at_ms = greatest(expires_at_ms, least(expires_at_ms + v_gap, p_now + lease_ms)) WHERE NOT dead;
        RETURN v_gap;
    END IF;
    RETURN 0;
END $$;

CREATE OR REPLACE FUNCTION holdfast.register(p_clock bigint, p_session text, p_queues text[], p_info bytea,
    p_lease bigint, p_address text) RETURNS void LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
BEGIN
    PERFORM holdfast.settings(name) FROM (SELECT DISTINCT name FROM unnest(p_queues) AS u(name) ORDER BY name) q;
    PERFORM holdfast.after_an_outage(v_now, p_lease, false);
    INSERT INTO holdfast.session (id, info, lease_ms, started_at_ms, heard_at_ms, expires_at_ms, address)
    VALUES (p_session, p_info, p_lease, v_now, v_now, v_now + p_lease, p_address)
    ON CONFLICT (id) DO UPDATE SET info = p_info, lease_ms = p_lease, started_at_ms = v_now, heard_at_ms = v_now,
        expires_at_ms = v_now + p_lease, address = p_address, dead = false, parked = NULL;
    INSERT INTO holdfast.serving (queue, id) SELECT DISTINCT name, p_session FROM unnest(p_queues) AS u(name)
    ON CONFLICT DO NOTHING;
END $$;

-- The session is over. Whatever it still held counts as stalled at the next reap.
CREATE OR REPLACE FUNCTION holdfast.leave(p_clock bigint, p_session text) RETURNS void LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
BEGIN
    PERFORM 1 FROM holdfast.session WHERE id = p_session FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT 1 FROM holdfast.serving v CROSS JOIN holdfast.holding(p_session, v.queue) WHERE v.id = p_session) THEN
        UPDATE holdfast.session SET expires_at_ms = v_now, parked = NULL WHERE id = p_session;
        RETURN;
    END IF;
    DELETE FROM holdfast.session WHERE id = p_session;
    DELETE FROM holdfast.serving WHERE id = p_session;
    DELETE FROM holdfast.grip WHERE session = p_session;
    DELETE FROM holdfast.abort WHERE session = p_session;
END $$;
