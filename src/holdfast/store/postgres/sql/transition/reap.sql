-- reap: active -> waiting
-- guard: the holder's session has expired
-- effects: drop lease, count the stall (at its limit, if it was alone: fail), keep its place, make it suspect, merge the successor, append event

-- Jobs of expired sessions wait in their old place, with a stall counted; or fail at their limit.
CREATE OR REPLACE FUNCTION holdfast.reap(p_clock bigint, p_queue text, p_limit integer, p_but text,
    OUT v_dead text[], OUT v_returned integer, OUT v_failed integer, OUT v_shifted bigint, OUT v_more boolean,
    OUT v_jobs jsonb,
    OUT v_next_lease bigint)
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint;
    j holdfast.job;
    v_ids text[];
    v_runs bigint[];
    v_state text;
    v_count integer := 0;
    v_message text := 'its worker vanished while it ran';
BEGIN
    v_returned := 0;
    v_failed := 0;
    v_more := false;
    v_jobs := '[]';
    PERFORM holdfast.lock_queues(ARRAY[p_queue]);
    v_now := holdfast.clock(p_clock);  -- it may have waited, and leases that were extended meanwhile would seem too long
    v_shifted := holdfast.shift_after_outage(v_now, NULL, true);
    -- No lease ends later than a whole lease from now, unless the clock was set back since it was given: then it would
    -- outlive its worker by as much. One lease more is left to those that are extended at this moment.
    -- A session that a call of its own has locked is heard just now, and left to the next reap. It cannot be waited for: `shift_after_outage`
    -- may have changed it here, and then its turn, which has locked it, waits for this.
    v_ids := ARRAY(SELECT s.id FROM holdfast.session s
        WHERE s.id = ANY (ARRAY(SELECT id FROM holdfast.serving WHERE queue = p_queue)) AND NOT s.dead
            AND (s.expires_at_ms <= v_now AND s.id <> p_but OR s.expires_at_ms > v_now + 2 * s.lease_ms)
        ORDER BY s.id FOR UPDATE OF s SKIP LOCKED);
    UPDATE holdfast.session SET expires_at_ms = v_now + lease_ms WHERE id = ANY (v_ids) AND expires_at_ms > v_now + 2 * lease_ms;
    UPDATE holdfast.session SET dead = true, parked = NULL WHERE id = ANY (v_ids) AND expires_at_ms <= v_now;
    SELECT coalesce(array_agg(s.id ORDER BY s.id), '{}') INTO v_dead
    FROM holdfast.serving v JOIN holdfast.session s ON s.id = ANY (ARRAY[v.id]) WHERE v.queue = p_queue AND s.dead AND s.id <> p_but;
    v_next_lease := holdfast.next_lease_ms(v_now, p_queue, p_but);
    IF v_dead = '{}' THEN
        RETURN;
    END IF;
    v_runs := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (ARRAY(SELECT h.run FROM unnest(v_dead) AS d(id)
            CROSS JOIN holdfast.held_runs(d.id, p_queue) AS h(run) ORDER BY h.run LIMIT p_limit))
        ORDER BY run FOR UPDATE);
    PERFORM holdfast.write_current_rows(v_runs);
    v_runs := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (v_runs) AND state = 'active' AND session = ANY (v_dead) ORDER BY run);
    PERFORM holdfast.lock_chains(v_runs);
    FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (v_runs) ORDER BY run LOOP
        v_count := v_count + 1;
        PERFORM holdfast.drop_lease(j);
        IF j.cancel THEN
            v_state := holdfast.cancel_run(v_now, j, 'reap', true);
        ELSE
            v_state := holdfast.return_or_fail(v_now, j, 'reap', 'stall', holdfast.error_record('Stalled', 'stall', v_message),
                'Stalled', holdfast.signature('Stalled', v_message), p_company => holdfast.slots_of(j.session));
        END IF;
        PERFORM holdfast.refresh_lane(v_now, p_queue, j.key);
        v_returned := v_returned + (v_state IN ('blocked', 'scheduled', 'waiting'))::integer;
        v_failed := v_failed + (v_state = 'failed')::integer;
        v_jobs := v_jobs || jsonb_build_array(jsonb_build_object('id', j.id, 'run', j.run, 'attempt', j.attempts,
            'task', j.task, 'state', v_state, 'failures', j.failures, 'stalls', j.stalls, 'timeouts', j.timeouts,
            'releases', j.releases, 'ran_ms', v_now - coalesce(j.claimed_at_ms, v_now)));
    END LOOP;
    v_more := v_count = p_limit;
    PERFORM holdfast.wake(p_queue, v_count);
    DELETE FROM holdfast.serving WHERE queue = p_queue AND id = ANY (v_dead) AND NOT EXISTS (
        SELECT 1 FROM holdfast.held_runs(serving.id, p_queue) OFFSET 0);
    DELETE FROM holdfast.session s WHERE s.dead AND s.id = ANY (v_dead)
        AND NOT EXISTS (SELECT 1 FROM holdfast.serving v WHERE v.id = s.id OFFSET 0);
    DELETE FROM holdfast.grip g WHERE g.session = ANY (v_dead)
        AND NOT EXISTS (SELECT 1 FROM holdfast.session s WHERE s.id = g.session OFFSET 0);
    DELETE FROM holdfast.abort a WHERE NOT EXISTS (SELECT 1 FROM holdfast.session s WHERE s.id = a.session OFFSET 0);
END $$;

-- In how long the next lease of another session is over, unless it is heard.
CREATE OR REPLACE FUNCTION holdfast.next_lease_ms(p_now bigint, p_queue text, p_but text) RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT min(s.expires_at_ms) - p_now FROM holdfast.serving v JOIN holdfast.session s USING (id)
        WHERE v.queue = p_queue AND NOT s.dead AND s.id <> p_but);
END $$;

CREATE OR REPLACE FUNCTION holdfast.reap_run(p_now bigint, j holdfast.job, p_error bytea, p_type text,
    p_signature text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.job SET state = 'waiting', exit = 'reap', ready_at_ms = p_now, stalls = j.stalls, error = p_error, error_signature = coalesce(p_signature, ''),
        company = j.company
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, 'waiting');
    PERFORM holdfast.add_to_order(ARRAY[j.run]);
    PERFORM holdfast.append_events(p_now, 'reap', ARRAY[j.run], NULL, true, p_type, p_signature);
END $$;
