-- retry: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count the failure or timeout (at its limit: fail), back off, suspect it no longer, merge the successor, append event

CREATE OR REPLACE FUNCTION holdfast.retry(p_now bigint, j holdfast.job, p_run_at bigint, p_error bytea,
    p_cause text, p_type text, p_signature text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.job
    SET state = 'scheduled', exit = 'retry', run_at_ms = p_run_at, ready_at_ms = p_run_at, error = p_error, error_signature = coalesce(p_signature, ''),
        failures = j.failures, timeouts = j.timeouts, company = NULL
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, 'scheduled');
    PERFORM holdfast.append_events(p_now, 'retry', ARRAY[j.run], p_cause, true, p_type, p_signature);
END $$;
