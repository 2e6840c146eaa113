-- fail: blocked | scheduled | waiting | active -> failed
-- guard: the caller holds the lease, or a limit is reached at claim, reap or release, or a blocker failed, or its record cannot be read
-- effects: drop lease, store error, enqueue the fail handler, end the chain, start the successor, append event, tell waiters

CREATE OR REPLACE FUNCTION holdfast.fail(p_now bigint, j holdfast.job, p_error bytea, p_type text, p_signature text,
    p_cause text, p_exit text DEFAULT 'fail', p_ttl bigint DEFAULT NULL, p_count boolean DEFAULT false,
    p_ran boolean DEFAULT false) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue := holdfast.ensure_queue(j.queue);
BEGIN
    IF p_count THEN
        CASE p_cause
            WHEN 'timeout' THEN j.timeouts := j.timeouts + 1;
            WHEN 'stall' THEN j.stalls := j.stalls + 1;
            WHEN 'release' THEN j.releases := j.releases + 1;
            ELSE j.failures := j.failures + 1;
        END CASE;
    END IF;
    UPDATE holdfast.job
    SET state = 'failed', exit = p_exit, error = p_error, error_signature = coalesce(p_signature, ''), finished_at_ms = p_now,
        failures = j.failures, stalls = j.stalls, timeouts = j.timeouts, releases = j.releases,
        snoozes = j.snoozes,
        free_at_ms = p_now + coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms),
        expires_at_ms = CASE WHEN holdfast.expires_alone(position, coalesce(p_ttl, result_ttl_ms))
            THEN greatest(p_now + greatest(q.failed_ms, coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms)),
                coalesce(dedup_until_ms, 0)) END
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, 'failed');
    PERFORM holdfast.remove_from_order(j);
    PERFORM holdfast.note_expiry(ARRAY[j.run]);
    PERFORM holdfast.append_events(p_now, 'fail', ARRAY[j.run], p_cause, p_ran, p_type, p_signature);
    IF p_cause = 'corrupt' THEN
        PERFORM holdfast.note_corrupt(p_now, 'job', j.queue, j.id, j.run, convert_from(p_error, 'UTF8')::jsonb ->> 'message');
    END IF;
    PERFORM holdfast.enqueue_failure_job(p_now, j, p_error);
    PERFORM holdfast.after_end(p_now, j, 'failed');
    PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
    RETURN 'failed';
END $$;

-- A run has reached a limit, its counters counted already: it fails, with the error that it has, or one that says so.
CREATE OR REPLACE FUNCTION holdfast.fail_at_limit(p_now bigint, j holdfast.job, p_cause text, p_counted bigint, p_name text,
    p_exit text, p_error bytea DEFAULT NULL, p_type text DEFAULT NULL, p_signature text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_message text := p_counted || ' ' || p_name || ', and no more are allowed';
BEGIN
    IF p_error IS NULL THEN
        p_type := 'TooMany' || initcap(p_name);
        p_error := holdfast.error_record(p_type, p_cause, v_message);
        p_signature := holdfast.signature(p_type, v_message);
    END IF;
    RETURN holdfast.fail(p_now, j, p_error, p_type, p_signature, p_cause, p_exit, p_ran => true);
END $$;

-- A failure job with the original payload, key, priority, counters and error, once for each failed run.
CREATE OR REPLACE FUNCTION holdfast.enqueue_failure_job(p_now bigint, j holdfast.job, p_error bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy := holdfast.policy_of(j);
    s holdfast.successor;
    q holdfast.queue;
    note text;
BEGIN
    IF p.on_failure_queue IS NULL THEN
        RETURN;
    END IF;
    q := holdfast.ensure_queue(p.on_failure_queue);
    note := '{"queue":' || to_json(j.queue)::text || ',"id":' || to_json(j.id)::text || ',"run":' || j.run
        || ',"task":' || coalesce(to_json(j.task)::text, 'null') || ',"counters":{"attempts":' || j.attempts
        || ',"failures":' || j.failures || ',"timeouts":' || j.timeouts || ',"stalls":' || j.stalls
        || ',"releases":' || j.releases || '},"key":' || coalesce(to_json(j.key)::text, 'null') || ',"priority":' || j.priority
        || ',"run_at_ms":' || j.run_at_ms || ',"error":' || convert_from(p_error, 'UTF8') || '}';
    s.queue := p.on_failure_queue; s.id := right(j.id || '/failed/' || j.run, @MOST_ID_BYTES);
    s.run := nextval('holdfast.run'); s.task := p.on_failure_task; s.priority := coalesce(p.on_failure_priority, j.priority);
    s.key := j.key; s.run_at_ms := p_now; s.enqueued_at_ms := p_now; s.payload := j.payload;
    s.envelope := convert_to('{', 'UTF8') || CASE WHEN j.envelope IS NULL OR holdfast.is_torn(j.envelope) OR octet_length(j.envelope) < 3
            THEN ''::bytea ELSE substring(j.envelope FROM 2 FOR octet_length(j.envelope) - 2) || convert_to(',', 'UTF8') END
        || convert_to('"failed":' || note || '}', 'UTF8');
    IF holdfast.insert_run(p_now, s, 'enqueue', NULL) THEN
        PERFORM holdfast.refresh_lane(p_now, s.queue, s.key);
        PERFORM holdfast.wake(s.queue, 1);
    END IF;
END $$;
