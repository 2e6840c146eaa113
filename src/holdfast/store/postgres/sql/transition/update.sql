-- update: blocked | scheduled | waiting -> waiting | scheduled | blocked
-- guard: the run has not started; an active one gets a successor instead
-- effects: change payload, run_at and counters by the update flags, append event

CREATE OR REPLACE FUNCTION holdfast.updated_run_at(p_current bigint, s holdfast.successor) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE s.update_run_at WHEN 'never' THEN p_current WHEN 'if_later' THEN greatest(p_current, s.run_at_ms)
        WHEN 'if_earlier' THEN least(p_current, s.run_at_ms) ELSE s.run_at_ms END;
END $$;

-- The active run has a successor; a further dispatch updates that one by its own flags.
CREATE OR REPLACE FUNCTION holdfast.update_successor(p_now bigint, j holdfast.job, s holdfast.successor)
RETURNS holdfast.answer LANGUAGE plpgsql AS $$
DECLARE
    e holdfast.successor;
    later_mode text := s.update_run_at;
BEGIN
    SELECT * INTO e FROM holdfast.successor WHERE queue = j.queue AND id = j.id;
    IF FOUND THEN
        s.run := e.run;
        s.enqueued_at_ms := e.enqueued_at_ms;
        s.run_at_ms := holdfast.updated_run_at(e.run_at_ms, s);
        IF NOT s.update_payload THEN
            s.task := e.task; s.priority := e.priority; s.key := e.key; s.result_ttl_ms := e.result_ttl_ms;
            s.overrides := e.overrides; s.envelope := e.envelope; s.payload := e.payload;
        END IF;
        IF s.dedup_key IS NULL THEN
            s.dedup_key := e.dedup_key; s.dedup_until_ms := e.dedup_until_ms;
        END IF;
        s.update_payload := e.update_payload OR s.update_payload;
        s.reset_counts := e.reset_counts OR s.reset_counts;
        IF later_mode = 'never' OR e.update_run_at = 'always' THEN
            s.update_run_at := e.update_run_at;
        END IF;
        DELETE FROM holdfast.successor WHERE queue = j.queue AND id = j.id;
    END IF;
    INSERT INTO holdfast.successor SELECT s.*;
    PERFORM holdfast.append_events(p_now, 'update', ARRAY[j.run], 'successor', p_envelope => s.envelope);
    RETURN ROW('successor', j.id, s.run, 'active', NULL, NULL)::holdfast.answer;
END $$;

-- A run that is not active has taken over what an update or a successor brings; its state is returned.
CREATE OR REPLACE FUNCTION holdfast.update_run(p_now bigint, j holdfast.job, s holdfast.successor, p_cause text)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v_run_at bigint := greatest(holdfast.updated_run_at(j.run_at_ms, s), 0);
    v_state text := 'blocked';
    v_key text := CASE WHEN s.update_payload THEN s.key ELSE j.key END;
BEGIN
    IF j.state <> 'blocked' THEN
        v_state := CASE WHEN v_run_at > p_now THEN 'scheduled' ELSE 'waiting' END;
        -- A waiting job keeps its place unless its time was really changed.
        IF v_state = 'waiting' AND v_run_at <> j.run_at_ms THEN
            v_run_at := greatest(v_run_at, p_now);
        END IF;
    END IF;
    UPDATE holdfast.job
    SET state = v_state, run_at_ms = v_run_at, ready_at_ms = v_run_at, key = v_key,
        task = CASE WHEN s.update_payload THEN s.task ELSE j.task END,
        payload = CASE WHEN s.update_payload THEN s.payload ELSE j.payload END,
        envelope = CASE WHEN s.update_payload THEN s.envelope ELSE j.envelope END,
        overrides = CASE WHEN s.update_payload THEN s.overrides ELSE j.overrides END,
        priority = CASE WHEN s.update_payload THEN s.priority ELSE j.priority END,
        result_ttl_ms = CASE WHEN s.update_payload THEN s.result_ttl_ms ELSE j.result_ttl_ms END,
        failures = CASE WHEN s.reset_counts THEN 0 ELSE j.failures END,
        stalls = CASE WHEN s.reset_counts THEN 0 ELSE j.stalls END,
        timeouts = CASE WHEN s.reset_counts THEN 0 ELSE j.timeouts END,
        releases = CASE WHEN s.reset_counts THEN 0 ELSE j.releases END,
        snoozes = CASE WHEN s.reset_counts THEN 0 ELSE j.snoozes END,
        spared = CASE WHEN s.reset_counts THEN j.attempts ELSE j.spared END,
        dedup_key = coalesce(s.dedup_key, j.dedup_key),
        dedup_until_ms = CASE WHEN s.dedup_key IS NULL THEN j.dedup_until_ms ELSE s.dedup_until_ms END,
        company = CASE WHEN s.reset_counts THEN NULL ELSE j.company END,
        error = CASE WHEN s.reset_counts THEN NULL ELSE j.error END,
        error_signature = CASE WHEN s.reset_counts THEN NULL ELSE j.error_signature END,
        progress = CASE WHEN s.update_payload THEN NULL ELSE j.progress END,
        checkpoint = CASE WHEN s.update_payload THEN NULL ELSE j.checkpoint END,
        absorbed_to = greatest(coalesce(j.absorbed_to, 0), s.run, j.run)
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, v_state);
    PERFORM holdfast.remove_from_order(j);
    PERFORM holdfast.add_to_order(ARRAY[j.run]);
    PERFORM holdfast.append_events(p_now, 'update', ARRAY[j.run], p_cause, p_carries => true,
        p_payload => s.update_payload AND (holdfast.ensure_queue(j.queue)).payloads);
    PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
    IF v_key IS DISTINCT FROM j.key THEN
        PERFORM holdfast.refresh_lane(p_now, j.queue, v_key);
    END IF;
    IF v_state <> 'blocked' THEN
        PERFORM holdfast.wake_for(p_now, j.queue, v_run_at);
    END IF;
    RETURN v_state;
END $$;

-- A finished run's successor, if it has one, is the id's next run. A chain that went on anew may have lost its id to another
-- run by then: the successor is that one's.
CREATE OR REPLACE FUNCTION holdfast.start_successor(p_now bigint, j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s holdfast.successor;
BEGIN
    IF NOT j.held THEN
        RETURN;
    END IF;
    DELETE FROM holdfast.successor WHERE queue = j.queue AND id = j.id RETURNING * INTO s;
    IF s.run IS NULL THEN
        RETURN;
    END IF;
    UPDATE holdfast.job SET held = false WHERE run = j.run;
    s.run_at_ms := greatest(s.run_at_ms, p_now);
    PERFORM holdfast.insert_run(p_now, s, 'enqueue', 'successor');
    PERFORM holdfast.refresh_lane(p_now, j.queue, s.key);
    PERFORM holdfast.wake_for(p_now, j.queue, s.run_at_ms);
END $$;

-- A run that came back from active has merged with its successor, if it has one.
CREATE OR REPLACE FUNCTION holdfast.merge_successor(p_now bigint, p_queue text, p_id text, p_run bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    s holdfast.successor;
    j holdfast.job;
BEGIN
    DELETE FROM holdfast.successor WHERE queue = p_queue AND id = p_id RETURNING * INTO s;
    IF s.run IS NOT NULL THEN
        UPDATE holdfast.blocker SET blocker = p_run WHERE blocker = s.run AND state IS NULL;
        SELECT * INTO j FROM holdfast.job WHERE run = p_run;
        PERFORM holdfast.update_run(p_now, j, s, 'successor');
    END IF;
END $$;
