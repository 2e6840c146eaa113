-- Rows that hold what Holdfast never writes. They are set aside when a call stumbles on one, or by upkeep, and reported once.

CREATE OR REPLACE FUNCTION holdfast.note_corrupt(p_now bigint, p_kind text, p_queue text, p_id text, p_run bigint, p_detail text)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.corrupt (at_ms, kind, queue, id, run, detail) VALUES (p_now, p_kind, p_queue, p_id, p_run, p_detail);
    DELETE FROM holdfast.corrupt WHERE number <= (SELECT max(number) FROM holdfast.corrupt) - @MOST_SET_ASIDE;
END $$;

-- A job that cannot be read is a dead letter; what was odd of it is neutral now, and named in its error.
CREATE OR REPLACE FUNCTION holdfast.set_job_aside(p_now bigint, p_run bigint, p_detail text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_active boolean;
    v_message text := 'the stored record of the job cannot be decoded';
BEGIN
    UPDATE holdfast.job SET
        state = CASE WHEN odd = 'state' THEN 'waiting' ELSE state END,
        chain_state = CASE WHEN odd = 'chain_state' THEN NULL ELSE chain_state END,
        priority = CASE WHEN odd = 'priority' THEN 0 ELSE priority END,
        overrides = CASE WHEN odd = 'overrides' THEN NULL ELSE overrides END,
        on_blocker_failed = CASE WHEN odd = 'on_blocker_failed' THEN NULL ELSE on_blocker_failed END,
        run_at_ms = CASE WHEN odd = 'an instant' THEN p_now ELSE run_at_ms END,
        ready_at_ms = CASE WHEN odd = 'an instant' THEN p_now ELSE ready_at_ms END,
        enqueued_at_ms = CASE WHEN odd = 'an instant' THEN p_now ELSE enqueued_at_ms END,
        claimed_at_ms = CASE WHEN odd = 'an instant' THEN NULL ELSE claimed_at_ms END,
        finished_at_ms = CASE WHEN odd = 'an instant' AND finished_at_ms IS NOT NULL THEN p_now ELSE finished_at_ms END,
        free_at_ms = CASE WHEN odd = 'an instant' AND free_at_ms IS NOT NULL THEN p_now ELSE free_at_ms END,
        expires_at_ms = CASE WHEN odd = 'an instant' AND expires_at_ms IS NOT NULL THEN p_now ELSE expires_at_ms END,
        result_ttl_ms = CASE WHEN odd = 'an instant' THEN NULL ELSE result_ttl_ms END,
        dedup_until_ms = CASE WHEN odd = 'an instant' THEN NULL ELSE dedup_until_ms END,
        progressed_at_ms = CASE WHEN odd = 'an instant' THEN NULL ELSE progressed_at_ms END,
        ended_at_ms = CASE WHEN odd = 'an instant' AND ended_at_ms IS NOT NULL THEN p_now ELSE ended_at_ms END,
        attempts = CASE WHEN odd = 'a counter' THEN 0 ELSE attempts END,
        failures = CASE WHEN odd = 'a counter' THEN 0 ELSE failures END,
        stalls = CASE WHEN odd = 'a counter' THEN 0 ELSE stalls END,
        timeouts = CASE WHEN odd = 'a counter' THEN 0 ELSE timeouts END,
        releases = CASE WHEN odd = 'a counter' THEN 0 ELSE releases END,
        position = CASE WHEN odd = 'a counter' THEN 0 ELSE position END,
        blockers = CASE WHEN odd = 'a counter' THEN NULL ELSE blockers END
    WHERE run = p_run;
    SELECT * INTO j FROM holdfast.job WHERE run = p_run;
    j := holdfast.write_current_row(j);
    IF j.state IN ('completed', 'failed', 'cancelled') THEN
        PERFORM holdfast.note_corrupt(p_now, 'finished job', j.queue, j.id, j.run, p_detail);
        RETURN;
    END IF;
    v_active := j.state = 'active';
    IF v_active THEN
        PERFORM holdfast.drop_lease(j);
    END IF;
    DELETE FROM holdfast.ready WHERE run = p_run AND queue = j.queue;
    PERFORM holdfast.fail(p_now, j, holdfast.error_record('CorruptRecord', 'corrupt', 'its record cannot be read: ' || p_detail),
        'CorruptRecord', holdfast.signature('CorruptRecord', v_message), 'corrupt', p_ran => v_active);
    PERFORM holdfast.refresh_lane(p_now, l.queue, l.key) FROM holdfast.lane l WHERE l.queue = j.queue;
END $$;

-- How many rows were set aside: jobs that are odd, and rows of the smaller tables that hold what Holdfast never writes.
-- p_log: the log too, all of which is looked at.
CREATE OR REPLACE FUNCTION holdfast.set_corrupt_aside(p_clock bigint, p_log boolean) RETURNS integer LANGUAGE plpgsql /* planner */ AS $$
#variable_conflict use_column
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_count integer := 0;
    r record;
BEGIN
    FOR r IN UPDATE holdfast.session SET lease_ms = @DEFAULT_LEASE_MS, started_at_ms = v_now, heard_at_ms = v_now, expires_at_ms = v_now + @DEFAULT_LEASE_MS, parked = NULL
        WHERE lease_ms NOT BETWEEN 1 AND 1000000000000 OR least(started_at_ms, heard_at_ms, expires_at_ms) < 0 OR parked < 0 OR parked > @MOST_COUNT
            OR greatest(started_at_ms, heard_at_ms, expires_at_ms) > @LARGEST_NUMBER RETURNING id
    LOOP
        v_count := v_count + 1;
        PERFORM holdfast.note_corrupt(v_now, 'session', '', r.id, 0, 'its lease or its times are none');
    END LOOP;
    FOR r IN DELETE FROM holdfast.key_limit WHERE concurrency < 0 RETURNING queue, key LOOP
        v_count := v_count + 1;
        PERFORM holdfast.note_corrupt(v_now, 'key limit', r.queue, r.key, 0, 'its concurrency is negative');
        PERFORM holdfast.refresh_lane(v_now, r.queue, r.key);
    END LOOP;
    FOR r IN DELETE FROM holdfast.lane WHERE turn NOT BETWEEN 0 AND @LARGEST_NUMBER OR ready_at_ms NOT BETWEEN 0 AND @LARGEST_NUMBER
            OR tokens_at_ms NOT BETWEEN 0 AND @LARGEST_NUMBER OR tokens IN ('NaN', 'Infinity', '-Infinity') RETURNING queue, key
    LOOP
        v_count := v_count + 1;
        PERFORM holdfast.note_corrupt(v_now, 'lane', r.queue, r.key, 0, 'its turn or its bucket is none');
        PERFORM holdfast.refresh_lane(v_now, r.queue, r.key);
    END LOOP;
    FOR r IN UPDATE holdfast.queue SET revision = 1, version = 0, turn = (SELECT coalesce(max(l.turn), 0) FROM holdfast.lane l WHERE l.queue = name),
            keyless_turn = 0, tokens = NULL, tokens_at_ms = NULL, result_ttl_ms = @RESULT_TTL_MS, completed_ms = NULL, failed_ms = @FAILED_KEPT_MS,
            failed_count = CASE WHEN failed_count BETWEEN 0 AND @LARGEST_NUMBER THEN failed_count END,
            declared = CASE WHEN jsonb_typeof(declared) = 'object' THEN declared ELSE '{}' END,
            operator = CASE WHEN jsonb_typeof(operator) = 'object' THEN operator ELSE '{}' END,
            concurrency = CASE WHEN concurrency >= 0 THEN concurrency END, key_concurrency = CASE WHEN key_concurrency >= 0 THEN key_concurrency END,
            rate_count = NULL, rate_per = NULL, rate_burst = NULL, key_rate_count = NULL, key_rate_per = NULL, key_rate_burst = NULL
        WHERE jsonb_typeof(declared) <> 'object' OR jsonb_typeof(operator) <> 'object'
            OR greatest(revision, version, turn, keyless_turn, tokens_at_ms, result_ttl_ms, completed_ms, failed_ms, failed_count) > @LARGEST_NUMBER
            OR least(revision, version, turn, keyless_turn, tokens_at_ms, result_ttl_ms, completed_ms, failed_ms, failed_count, concurrency, key_concurrency, rate_burst, key_rate_burst) < 0
            OR tokens IN ('NaN', 'Infinity', '-Infinity') OR NOT (coalesce(rate_count, 1) > 0 AND coalesce(rate_count, 1) < 'Infinity')
            OR NOT (coalesce(rate_per, 1) > 0 AND coalesce(rate_per, 1) < 'Infinity') OR NOT (coalesce(key_rate_count, 1) > 0 AND coalesce(key_rate_count, 1) < 'Infinity')
            OR NOT (coalesce(key_rate_per, 1) > 0 AND coalesce(key_rate_per, 1) < 'Infinity')
            OR (rate_count IS NULL) <> (rate_per IS NULL) OR (key_rate_count IS NULL) <> (key_rate_per IS NULL) RETURNING name
    LOOP
        v_count := v_count + 1;
        PERFORM holdfast.note_corrupt(v_now, 'queue', r.name, r.name, 0, 'its settings or its counters are none; set them again');
    END LOOP;
    FOR r IN DELETE FROM holdfast.policy WHERE NOT (initial >= 0 AND initial < 'Infinity' AND multiplier >= 0 AND multiplier < 'Infinity'
            AND maximum >= 0 AND maximum < 'Infinity' AND jitter >= 0 AND jitter < 'Infinity')
            OR least(failures, stalls, timeouts, releases, attempts, snoozes) < 1 OR timeout_ms NOT BETWEEN 1 AND @LARGEST_NUMBER
            OR jsonb_typeof(declared) <> 'object' OR jsonb_typeof(operator) <> 'object'
            OR on_failure_priority NOT BETWEEN @LOWEST_PRIORITY AND @HIGHEST_PRIORITY
            OR (on_failure_queue IS NULL) <> (on_failure_task IS NULL) RETURNING queue, task
    LOOP
        v_count := v_count + 1;
        PERFORM holdfast.note_corrupt(v_now, 'policy', r.queue, r.task, 0, 'its limits are none; declare or set them again');
    END LOOP;
    FOR r IN UPDATE holdfast.successor SET priority = 0, run_at_ms = v_now, enqueued_at_ms = v_now, update_run_at = 'always', result_ttl_ms = NULL,
            dedup_until_ms = NULL, overrides = '"unreadable"'  -- so that it is found out when it is a job
        WHERE priority NOT BETWEEN @LOWEST_PRIORITY AND @HIGHEST_PRIORITY OR greatest(run_at_ms, enqueued_at_ms, result_ttl_ms, dedup_until_ms) > @LARGEST_NUMBER
            OR least(run_at_ms, enqueued_at_ms, result_ttl_ms, dedup_until_ms) < 0 OR jsonb_typeof(overrides) <> 'object' AND overrides <> '"unreadable"'
            OR update_run_at NOT IN ('always', 'never', 'if_later', 'if_earlier') RETURNING queue, id, run
    LOOP
        v_count := v_count + 1;
        PERFORM holdfast.note_corrupt(v_now, 'successor', r.queue, r.id, r.run, 'it cannot be read, and will fail when its turn comes');
    END LOOP;
    FOR r IN UPDATE holdfast.blocker SET state = 'abandoned', error = NULL, result = NULL
        WHERE state NOT IN ('completed', 'failed', 'cancelled', 'abandoned') OR blocker IS NULL AND state IS NULL RETURNING run, queue, id
    LOOP
        v_count := v_count + 1;
        PERFORM holdfast.note_corrupt(v_now, 'blocker', r.queue, r.id, r.run, 'its state is none');
        PERFORM holdfast.set_job_aside(v_now, r.run, 'what it waits for') WHERE EXISTS (SELECT 1 FROM holdfast.job WHERE run = r.run AND state = 'blocked');
    END LOOP;
    FOR r IN SELECT run, queue, id, odd FROM holdfast.job WHERE odd IS NOT NULL ORDER BY run LIMIT @MENDED_AT_ONCE LOOP
        v_count := v_count + 1;
        PERFORM holdfast.set_job_aside(v_now, r.run, r.odd || ' is none');
    END LOOP;
    IF p_log THEN
        FOR r IN DELETE FROM holdfast.event WHERE state NOT IN ('blocked', 'scheduled', 'waiting', 'active', 'completed', 'failed', 'cancelled')
            RETURNING queue, id, run
        LOOP
            v_count := v_count + 1;
            PERFORM holdfast.note_corrupt(v_now, 'event', r.queue, r.id, r.run, 'its state is none');
        END LOOP;
    END IF;
    RETURN v_count;
END $$;

-- What was set aside since the last report; what no call would stumble on is set aside first.
CREATE OR REPLACE FUNCTION holdfast.report_corrupt(p_clock bigint)
RETURNS TABLE (kind text, queue text, id text, run bigint, detail text) LANGUAGE plpgsql /* planner */ AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.job WHERE odd IS NOT NULL) OR EXISTS (SELECT 1 FROM holdfast.key_limit WHERE concurrency < 0)
        OR EXISTS (SELECT 1 FROM holdfast.queue WHERE least(concurrency, key_concurrency, rate_burst, key_rate_burst, result_ttl_ms, completed_ms, failed_ms, failed_count) < 0)
        OR EXISTS (SELECT 1 FROM holdfast.policy WHERE least(failures, stalls, timeouts, releases, attempts, snoozes) < 1 OR on_failure_priority NOT BETWEEN @LOWEST_PRIORITY AND @HIGHEST_PRIORITY)
        OR EXISTS (SELECT 1 FROM holdfast.blocker
            WHERE state NOT IN ('completed', 'failed', 'cancelled', 'abandoned') OR blocker IS NULL AND state IS NULL) THEN
        PERFORM holdfast.set_corrupt_aside(p_clock, false);
    END IF;
    RETURN QUERY UPDATE holdfast.corrupt c SET told = true WHERE NOT c.told RETURNING c.kind, c.queue, c.id, c.run, c.detail;
END $$;
