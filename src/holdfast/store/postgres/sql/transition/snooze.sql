-- snooze: active -> scheduled
-- guard: the caller holds the lease
-- effects: drop lease, count the snooze (at its limit: fail), set run_at, suspect it no longer, merge the successor, append event

CREATE OR REPLACE FUNCTION holdfast.snooze(p_now bigint, j holdfast.job, p_run_at bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy := holdfast.policy_of(j);
BEGIN
    j.snoozes := least(j.snoozes, @MOST_COUNT) + 1;
    IF j.snoozes >= p.snoozes THEN
        RETURN holdfast.fail_at_limit(p_now, j, 'snooze', j.snoozes, 'snoozes', 'snooze');
    ELSIF j.attempts::bigint - j.spared >= p.attempts THEN
        RETURN holdfast.fail_at_limit(p_now, j, 'attempts', j.attempts::bigint - j.spared, 'attempts', 'snooze');
    END IF;
    UPDATE holdfast.job SET state = 'scheduled', exit = 'snooze', run_at_ms = p_run_at, ready_at_ms = p_run_at,
        snoozes = j.snoozes, company = NULL
    WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, 'scheduled');
    PERFORM holdfast.append_events(p_now, 'snooze', ARRAY[j.run], NULL, true);
    PERFORM holdfast.merge_successor(p_now, j.queue, j.id, j.run);
    PERFORM holdfast.wake_for(p_now, j.queue, p_run_at);
    RETURN (SELECT state FROM holdfast.job WHERE run = j.run);
END $$;
