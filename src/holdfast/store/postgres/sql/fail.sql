-- fail: blocked | scheduled | waiting | active -> failed
-- guard: the caller holds the lease, or a limit is reached at claim, reap or release, or a blocker failed, or its record cannot be read
-- effects: drop lease, store error, enqueue the fail handler, end the chain, start the successor, append event, tell waiters

CREATE OR REPLACE FUNCTION holdfast.fail(p_now bigint, j holdfast.job, p_error bytea, p_type text, p_signature text,
    p_cause text, p_exit text, p_ttl bigint, p_count boolean, p_ran boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue := holdfast.settings(j.queue);
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
    SET state = 'failed', exit = p_exit, error = p_error, finished_at_ms = p_now,
        failures = j.failures, stalls = j.stalls, timeouts = j.timeouts, releases = j.releases,
        free_at_ms = p_now + coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms),
        expires_at_ms = CASE WHEN holdfast.goes_alone(position, coalesce(p_ttl, result_ttl_ms))
            THEN greatest(p_now + greatest(q.failed_ms, coalesce(p_ttl, result_ttl_ms, q.result_ttl_ms)),
                coalesce(dedup_until_ms, 0)) END
    WHERE run = j.run;
    PERFORM holdfast.displace(j);
    PERFORM holdfast.fade(ARRAY[j.run]);
    PERFORM holdfast.append(p_now, 'fail', ARRAY[j.run], p_cause, p_ran, p_type, p_signature);
    IF p_cause = 'corrupt' THEN
        PERFORM holdfast.note_corrupt(p_now, 'job', j.queue, j.id, j.run, convert_from(p_error, 'UTF8')::jsonb ->> 'message');
    END IF;
    PERFORM holdfast.enqueue_fail_handler(p_now, j, p_error);
    PERFORM holdfast.over(p_now, j, 'failed');
    PERFORM holdfast.recheck(p_now, j.queue, j.key);
    RETURN 'failed';
END $$;

-- A failure job with the original payload, counters and error, once for each failed run.
CREATE OR REPLACE FUNCTION holdfast.enqueue_fail_handler(p_now bigint, j holdfast.job, p_error bytea) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy := holdfast.rule(j);
    s holdfast.successor;
    q holdfast.queue;
    note text;
BEGIN
    IF p.on_failure_queue IS NULL THEN
        RETURN;
    END IF;
    q := holdfast.settings(p.on_failure_queue);
    note := '{"queue":' || to_json(j.queue)::text || ',"id":' || to_json(j.id)::text || ',"run":' || j.run
        || ',"task":' || coalesce(to_json(j.task)::text, 'null') || ',"counters":{"attempts":' || j.attempts
        || ',"failures":' || j.failures || ',"timeouts":' || j.timeouts || ',"stalls":' || j.stalls
        || ',"releases":' || j.releases || '},"error":' || convert_from(p_error, 'UTF8') || '}';
    s := ROW(p.on_failure_queue, right(j.id || '/failed/' || j.run, 1024), nextval('holdfast.run'), p.on_failure_task,
        0, NULL, p_now, p_now, true, 'always', true, NULL, NULL, NULL, NULL,
        convert_to('{', 'UTF8') || CASE WHEN j.headers IS NULL OR holdfast.torn(j.headers) OR octet_length(j.headers) < 5
            THEN ''::bytea ELSE substring(j.headers FROM 2 FOR octet_length(j.headers) - 2) || convert_to(',', 'UTF8') END
        || convert_to('"holdfast-failed":' || to_json(note)::text || '}', 'UTF8'),
        j.payload);
    IF holdfast.insert(p_now, s, 'enqueue', NULL) THEN
        PERFORM holdfast.wake(s.queue, 1);
    END IF;
END $$;
