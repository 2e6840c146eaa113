-- extend: active -> active
-- guard: the session has not been reaped
-- effects: move the session's expiry

CREATE OR REPLACE FUNCTION holdfast.extend(p_clock bigint, p_session text, p_lease bigint, p_memory bigint DEFAULT NULL,
    OUT v_evicted boolean, OUT v_late boolean, OUT v_aborts jsonb, OUT v_command text) LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_expires bigint;
BEGIN
    PERFORM holdfast.shift_after_outage(v_now, p_lease, false);
    SELECT expires_at_ms INTO v_expires FROM holdfast.session WHERE id = p_session AND NOT dead FOR NO KEY UPDATE;
    v_evicted := NOT FOUND;
    v_late := v_expires <= v_now;
    IF NOT v_evicted THEN
        UPDATE holdfast.session SET heard_at_ms = v_now, expires_at_ms = v_now + p_lease,
            memory_bytes = coalesce(p_memory, memory_bytes)
        WHERE id = p_session RETURNING command INTO v_command;
        v_aborts := holdfast.pending_aborts(p_session);
        -- What ended without the session's own word, it does not hold any more.
        DELETE FROM holdfast.grip g WHERE g.session = p_session AND NOT EXISTS (
            SELECT 1 FROM holdfast.job j WHERE j.run = ANY (g.runs) AND (j.state = 'active' AND j.grip = g.number
                OR j.state = 'waiting' AND j.attempts = 0 AND g.claimed_at_ms IS NOT NULL) OFFSET 0);
    END IF;
END $$;

-- When no session at all was heard for long, the store was away: expiries move by that gap. Long is what the session that was
-- heard last, by its lease, would not have let pass. A reaper has no lease (NULL).
CREATE OR REPLACE FUNCTION holdfast.shift_after_outage(p_now bigint, p_lease bigint, p_wait boolean) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_heard bigint;
    v_last bigint;
    v_gap bigint;
BEGIN
    SELECT heard_at_ms, lease_ms INTO v_heard, v_last FROM holdfast.pulse;
    v_gap := p_now - v_heard;
    IF v_gap >= 0 AND v_gap < least(@PULSE_MS, coalesce(p_lease, v_last) / @PULSES_IN_A_LEASE) THEN
        RETURN 0;  -- near enough; with a short lease a whole second would itself look like an outage
    END IF;
    IF p_wait THEN
        SELECT heard_at_ms, lease_ms INTO v_heard, v_last FROM holdfast.pulse FOR UPDATE;
    ELSE
        SELECT heard_at_ms, lease_ms INTO v_heard, v_last FROM holdfast.pulse FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN 0;  -- another call is at it
        END IF;
    END IF;
    v_gap := p_now - v_heard;
    IF v_gap >= 0 AND v_gap < least(@PULSE_MS, coalesce(p_lease, v_last) / @PULSES_IN_A_LEASE) THEN
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
