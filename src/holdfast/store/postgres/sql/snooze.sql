-- snooze: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, set run_at, suspect it no longer, merge the successor, append event

CREATE OR REPLACE FUNCTION holdfast.snooze(p_now bigint, j holdfast.job, p_run_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE holdfast.job SET state = 'scheduled', exit = 'snooze', run_at_ms = p_run_at, ready_at_ms = p_run_at,
        company = NULL
    WHERE run = j.run;
    PERFORM holdfast.append(p_now, 'snooze', ARRAY[j.run], NULL, true);
    PERFORM holdfast.absorb(p_now, j.queue, j.id, j.run);
    PERFORM holdfast.wake_for(p_now, j.queue, p_run_at);
END $$;
