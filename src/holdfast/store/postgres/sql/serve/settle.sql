-- One settlement: the guard, and the transition that it asks for.

-- The word for one settlement; an `ok` is followed by the state. p_grips is false where the transaction may stay open:
-- the session's next turn must not wait for it, and its next heartbeat finds the grip that is left over.
CREATE OR REPLACE FUNCTION holdfast.settle(p_now bigint, p_session text, s holdfast.settlement, p_grips boolean)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_active boolean;
    v_ours boolean;
    v_repeated boolean;
    v_run_at bigint := CASE WHEN s.run_at IS NOT NULL THEN greatest(s.run_at, p_now) ELSE p_now + s.delay END;
    v_state text;
BEGIN
    SELECT * INTO j FROM holdfast.job WHERE run = s.run FOR UPDATE;
    IF NOT FOUND THEN
        DELETE FROM holdfast.abort WHERE run = s.run AND attempt = s.attempt;
        RETURN 'missing';
    ELSIF j.queue <> s.queue OR j.id <> s.id THEN
        RETURN 'missing';
    END IF;
    j := holdfast.write_current_row(j);
    v_active := j.state = 'active';
    v_ours := coalesce(j.session = p_session, false) AND j.attempts = s.attempt;
    v_repeated := v_ours AND NOT v_active AND coalesce(j.exit = s.kind, false);
    -- The attempt before is remembered too: a repeat may come when another session has claimed the job already.
    IF j.last_session = p_session AND j.attempts = s.attempt + 1 THEN
        v_repeated := coalesce(j.last_exit = s.kind, false);
    END IF;
    IF v_repeated THEN
        RETURN 'ok:' || j.state;
    ELSIF NOT (v_ours AND v_active) THEN
        IF j.session = p_session THEN  -- it knows by now
            DELETE FROM holdfast.abort WHERE session = p_session AND run = s.run AND attempt = s.attempt;
        END IF;
        RETURN 'stale';
    END IF;
    IF s.kind = 'complete' AND NOT (j.cancel AND s.next IS NOT NULL) THEN  -- a cancelled chain is not continued
        PERFORM holdfast.complete(p_now, p_session, p_queues => ARRAY[s.queue], p_ids => ARRAY[s.id], p_runs => ARRAY[s.run],
            p_attempts => ARRAY[s.attempt], p_results => ARRAY[s.data], p_ttls => ARRAY[s.ttl], p_grips => p_grips,
            p_nexts => CASE WHEN s.next IS NOT NULL THEN ARRAY[s.next] END);
        RETURN 'ok:completed';
    END IF;
    PERFORM holdfast.drop_lease(j);
    IF j.cancel THEN
        v_state := holdfast.cancel_run(p_now, j, s.kind, true);
    ELSIF s.kind = 'retry' THEN
        v_state := holdfast.return_or_fail(p_now, j, 'retry', s.cause, s.data, s.error_type, s.signature,
            p_run_at => v_run_at);
    ELSIF s.kind = 'fail' THEN
        v_state := holdfast.fail(p_now, j, s.data, s.error_type, s.signature, s.cause, p_exit => 'fail', p_ttl => s.ttl,
            p_count => true, p_ran => true);
    ELSIF s.kind = 'release' THEN
        v_state := holdfast.return_or_fail(p_now, j, 'release', s.cause, s.data, s.error_type, s.signature,
            p_company => coalesce(s.company, 1), p_run_at => CASE WHEN s.delay > 0 THEN v_run_at END);
    ELSE
        v_state := holdfast.snooze(p_now, j, coalesce(v_run_at, p_now));
    END IF;
    DELETE FROM holdfast.abort WHERE session = p_session AND run = s.run AND attempt = s.attempt;
    PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
    RETURN 'ok:' || v_state;
END $$;

-- The run counts its cause and returns to the queue, or fails at its limit (p_exit: retry, release or reap). Its state is returned.
-- p_company: how many jobs at most ran where it stalled. p_run_at: when it runs again, where that was said.
CREATE OR REPLACE FUNCTION holdfast.return_or_fail(p_now bigint, j holdfast.job, p_exit text, p_cause text, p_error bytea,
    p_type text, p_signature text, p_company integer DEFAULT 1, p_run_at bigint DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    p holdfast.policy := holdfast.policy_of(j);
    v_counted integer;
    v_limit integer;
    v_name text;
    v_run_at bigint := j.run_at_ms;
    n holdfast.job := j;
    v_final boolean;
BEGIN
    CASE p_cause
        WHEN 'timeout' THEN v_counted := j.timeouts + 1; v_limit := p.timeouts; v_name := 'timeouts'; n.timeouts := v_counted;
        WHEN 'stall' THEN v_counted := j.stalls + 1; v_limit := p.stalls; v_name := 'stalls'; n.stalls := v_counted;
        WHEN 'release' THEN v_counted := j.releases + 1; v_limit := p.releases; v_name := 'releases'; n.releases := v_counted;
        WHEN 'failure' THEN v_counted := j.failures + 1; v_limit := p.failures; v_name := 'failures'; n.failures := v_counted;
        WHEN 'worker' THEN v_counted := 0; n.spared := least(j.spared, @MOST_COUNT) + 1;  -- it costs nothing, and has no limit
        ELSE v_counted := 1; v_limit := 1; v_name := 'failures'; n.failures := j.failures + 1;
    END CASE;
    v_final := coalesce(v_counted >= v_limit, false);
    IF p_cause = 'stall' AND (p_exit = 'reap' OR p_company > 1) THEN  -- a process that ran nothing else harmed no other job
        n.company := holdfast.company_after(v_counted, v_limit, least(p_company, j.company));
        v_final := n.company IS NULL;
    END IF;
    IF v_final THEN
        RETURN holdfast.fail_at_limit(p_now, n, p_cause, v_counted, v_name, p_exit, p_error, p_type, p_signature);
    ELSIF p_cause <> 'worker' AND j.attempts::bigint - j.spared >= p.attempts THEN
        RETURN holdfast.fail_at_limit(p_now, n, 'attempts', j.attempts::bigint - j.spared, 'attempts', p_exit, p_error,
            p_type, p_signature);
    END IF;
    IF p_exit = 'retry' THEN
        v_run_at := coalesce(p_run_at, p_now + holdfast.backoff_ms(p, v_counted));
        PERFORM holdfast.retry(p_now, n, v_run_at, p_error, p_cause, p_type, p_signature);
    ELSIF p_exit = 'release' THEN
        v_run_at := coalesce(p_run_at, v_run_at);
        PERFORM holdfast.release(p_now, n, v_run_at, p_error, nullif(p_cause, 'release'), p_type, p_signature);
    ELSE
        PERFORM holdfast.reap_run(p_now, n, p_error, p_type, p_signature);
    END IF;
    PERFORM holdfast.merge_successor(p_now, j.queue, j.id, j.run);
    PERFORM holdfast.wake_for(p_now, j.queue, v_run_at);
    RETURN (SELECT state FROM holdfast.job WHERE run = j.run);
END $$;
