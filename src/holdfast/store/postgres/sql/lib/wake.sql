-- Messages to workers: wake-ups for those that are parked, and aborts for handlers that must stop.

-- Send a message to one listener, once this transaction is committed.
CREATE OR REPLACE FUNCTION holdfast.send(p_address text, p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_address ~ '^hf_[0-9a-f]+:[0-9]+$' AND octet_length(p_message) < 7800 THEN
        PERFORM pg_notify(split_part(p_address, ':', 1), split_part(p_address, ':', 2) || ':' || p_message);
    END IF;
END $$;

-- Wake enough parked workers for so many jobs, no more. One that is locked is awake already.
CREATE OR REPLACE FUNCTION holdfast.wake(p_queue text, p_jobs bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s record;
    jobs bigint := p_jobs;
BEGIN
    IF jobs <= 0 THEN
        RETURN;
    END IF;
    IF current_setting('hf.joined', true) = 'on' THEN  -- sent at the caller's commit, when others may have parked
        PERFORM holdfast.send(w.address, '') FROM holdfast.serving v JOIN holdfast.session w ON w.id = ANY (ARRAY[v.id])
        WHERE v.queue = p_queue AND NOT w.dead;
        RETURN;
    END IF;
    FOR s IN
        SELECT w.id, w.parked, w.address FROM holdfast.serving v JOIN holdfast.session w ON w.id = ANY (ARRAY[v.id])
        WHERE v.queue = p_queue AND w.parked IS NOT NULL AND NOT w.dead
        ORDER BY w.heard_at_ms LIMIT @MOST_WOKEN FOR UPDATE OF w SKIP LOCKED
    LOOP
        UPDATE holdfast.session SET parked = NULL WHERE id = s.id;
        PERFORM holdfast.send(s.address, '');
        jobs := jobs - s.parked;
        EXIT WHEN jobs <= 0;
    END LOOP;
END $$;

-- Wake a worker for a job that came back to the queue, if it is due now, or the first that will be.
CREATE OR REPLACE FUNCTION holdfast.wake_for(p_now bigint, p_queue text, p_run_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_run_at <= p_now
        OR p_run_at = (SELECT due_at_ms FROM holdfast.job WHERE queue = p_queue AND due_at_ms IS NOT NULL
            ORDER BY due_at_ms LIMIT 1) THEN
        PERFORM holdfast.wake(p_queue, 1);
    END IF;
END $$;

-- Tell the handler of an active run to stop.
CREATE OR REPLACE FUNCTION holdfast.abort_handler(j holdfast.job, p_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.abort (session, run, attempt, queue, id, reason)
    VALUES (j.session, j.run, j.attempts, j.queue, j.id, p_reason)
    ON CONFLICT (session, run, attempt) DO UPDATE SET reason = excluded.reason;
    PERFORM holdfast.send(address, '') FROM holdfast.session WHERE id = j.session AND address IS NOT NULL;
END $$;

-- The handlers of the session that must be told to stop: queue, id, run, attempt and reason of each.
CREATE OR REPLACE FUNCTION holdfast.pending_aborts(p_session text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT jsonb_agg(jsonb_build_object('queue', queue, 'id', id, 'run', run, 'attempt', attempt, 'reason', reason)) FROM holdfast.abort
        WHERE session = p_session);
END $$;
