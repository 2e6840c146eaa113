-- release: active -> waiting | scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count release, stall or none (at limit: fail; of a stall, only alone), keep its place, make the stalled suspect, merge the successor, append event

CREATE OR REPLACE FUNCTION holdfast.release(p_now bigint, j holdfast.job, p_run_at bigint, p_error bytea,
    p_cause text, p_type text, p_signature text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.job
    SET state = CASE WHEN p_run_at > p_now THEN 'scheduled' ELSE 'waiting' END, exit = 'release',
        run_at_ms = p_run_at, ready_at_ms = greatest(p_run_at, p_now), releases = j.releases,
        stalls = j.stalls, spared = j.spared, company = j.company, error = coalesce(p_error, error),
        error_signature = CASE WHEN p_error IS NULL THEN error_signature ELSE coalesce(p_signature, '') END
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, CASE WHEN p_run_at > p_now THEN 'scheduled' ELSE 'waiting' END);
    PERFORM holdfast.add_to_order(ARRAY[j.run]);
    PERFORM holdfast.append_events(p_now, 'release', ARRAY[j.run], p_cause, true, p_type, p_signature);
END $$;
