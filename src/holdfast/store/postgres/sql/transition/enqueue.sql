-- enqueue: nothing -> waiting | scheduled | blocked
-- guard: no run holds the id
-- effects: number the run, hold the id, append event, wake one worker

-- Enqueue jobs that may meet others, one by one, under the queue's lock.
CREATE OR REPLACE FUNCTION holdfast.enqueue_each(p_now bigint, b holdfast.batch)
RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    v_answers holdfast.answer[] := array_fill(NULL::holdfast.answer, ARRAY[cardinality(b.ids)]);
    t record;
    s holdfast.successor;
    j holdfast.job;
    answer holdfast.answer;
    dedup jsonb;
    v_keys text[] := '{}';
    v_waiting integer := 0;
    v_sooner bigint;
    v_failed boolean;
    v_state text;
    v_open integer;
    v_blocker text[];
BEGIN
    PERFORM holdfast.lock_jobs(ARRAY(SELECT h.run FROM unnest(b.ids) AS u(id) CROSS JOIN LATERAL (
        SELECT run FROM holdfast.job WHERE queue = b.queue AND id = u.id AND held OFFSET 0) h));
    FOR t IN  -- numbered in the order given, taken in the order of ids
        WITH input AS MATERIALIZED (
            SELECT u.*, nextval('holdfast.run') AS run
            FROM unnest(b.ids, b.tasks, b.payloads, b.run_ats, b.delays, b.priorities, b.keys, b.envelopes, b.overrides,
                b.ttls, b.dedups, b.blockers, b.on_blocker_failed)
                WITH ORDINALITY AS u(id, task, payload, run_at, delay, priority, key, envelope, overrides, ttl, dedup,
                    blockers, on_blocker_failed, ord)
        )
        SELECT * FROM input ORDER BY CASE WHEN b.dedups IS NULL THEN id END COLLATE "C", ord
    LOOP
        dedup := t.dedup::jsonb;
        s.queue := b.queue; s.id := t.id; s.run := t.run; s.priority := coalesce(t.priority, 0); s.key := t.key;
        s.task := CASE WHEN b.tasks IS NULL THEN b.task ELSE t.task END;
        s.run_at_ms := CASE WHEN t.run_at IS NOT NULL THEN greatest(t.run_at, p_now)
            ELSE p_now + greatest(coalesce(t.delay, 0), 0) END;
        s.enqueued_at_ms := p_now; s.result_ttl_ms := t.ttl;
        s.update_payload := b.update_payload; s.update_run_at := b.update_run_at; s.reset_counts := b.reset_counts;
        s.dedup_key := dedup ->> 'key'; s.dedup_until_ms := p_now + (dedup ->> 'window_ms')::bigint;
        s.overrides := t.overrides::jsonb; s.envelope := t.envelope; s.payload := t.payload;
        answer := NULL;
        IF dedup IS NOT NULL THEN
            j := holdfast.find_duplicate(p_now, s, dedup);
            IF j.run IS NOT NULL THEN
                answer := holdfast.answer_for(j);
            END IF;
        END IF;
        WHILE answer IS NULL LOOP
            j := holdfast.lock_holder_too(p_now, b.queue, t.id);
            v_state := holdfast.outcome(j);
            IF j.run IS NOT NULL AND b.updates AND j.position > 0 THEN
                answer := ROW('refused', j.id, j.run, v_state, NULL, NULL)::holdfast.answer;
            ELSIF j.run IS NOT NULL AND b.updates AND v_state = 'active' THEN
                answer := holdfast.update_successor(p_now, j, s);
            ELSIF j.run IS NOT NULL AND b.updates AND v_state IN ('blocked', 'scheduled', 'waiting') THEN
                s.run := j.run;
                answer := ROW('updated', j.id, j.run, holdfast.update_run(p_now, j, s, NULL), NULL, NULL)::holdfast.answer;
            ELSIF j.run IS NOT NULL AND NOT b.updates AND NOT (v_state = 'failed' AND b.requeues) THEN
                answer := holdfast.answer_for(j);
            ELSE
                v_failed := j.run IS NOT NULL AND v_state = 'failed';
                IF j.run IS NOT NULL THEN
                    UPDATE holdfast.job SET held = false, requeued_as = s.run WHERE run = j.run;
                END IF;
                v_open := NULL;
                v_blocker := NULL;
                IF t.blockers IS NOT NULL THEN
                    SELECT w.v_open, w.v_failed INTO v_open, v_blocker
                    FROM holdfast.add_blockers(p_now, s.run, t.blockers::jsonb, t.on_blocker_failed) w;
                END IF;
                CONTINUE WHEN NOT holdfast.insert_run(p_now, s, CASE WHEN v_failed THEN 'requeue' ELSE 'enqueue' END, NULL,
                    p_open => v_open, p_failed => v_blocker, p_policy => t.on_blocker_failed);
                v_state := CASE WHEN v_blocker IS NOT NULL THEN CASE t.on_blocker_failed WHEN 'cancel' THEN 'cancelled' ELSE 'failed' END
                    WHEN v_open > 0 THEN 'blocked' WHEN s.run_at_ms > p_now THEN 'scheduled' ELSE 'waiting' END;
                answer := ROW(CASE WHEN v_failed THEN 'requeued' ELSE 'queued' END, s.id, s.run, v_state, NULL,
                    CASE WHEN v_state = 'failed' THEN (SELECT error FROM holdfast.job WHERE run = s.run) END)::holdfast.answer;
                IF v_state = 'scheduled' THEN
                    v_sooner := least(v_sooner, s.run_at_ms);
                ELSIF v_state = 'waiting' THEN
                    v_waiting := v_waiting + 1;
                END IF;
                IF v_state IN ('scheduled', 'waiting') THEN
                    v_keys := v_keys || s.key;
                END IF;
            END IF;
        END LOOP;
        v_answers[t.ord] := answer;
    END LOOP;
    IF b.keys IS NOT NULL THEN  -- a lane stands behind those that came before it
        PERFORM holdfast.refresh_keys(p_now, b.queue, ARRAY(SELECT u.key FROM unnest(b.keys) WITH ORDINALITY AS u(key, ord)
            WHERE u.key = ANY (v_keys) ORDER BY u.ord));
    END IF;
    IF b.watchers IS NOT NULL THEN
        v_answers := holdfast.watch_answers(b.queue, v_answers, b.watchers);
    END IF;
    PERFORM holdfast.wake(b.queue, v_waiting);
    IF v_sooner IS NOT NULL THEN
        PERFORM holdfast.wake_for(p_now, b.queue, v_sooner);
    END IF;
    RETURN v_answers;
END $$;

-- Insert a new run of a free id; false when another call was quicker.
-- p_chain, p_position: its place in a chain. p_open, p_failed, p_policy: what it waits for, as `add_blockers` says.
CREATE OR REPLACE FUNCTION holdfast.insert_run(p_now bigint, s holdfast.successor, p_transition text, p_cause text,
    p_chain bigint DEFAULT NULL, p_position integer DEFAULT 0, p_open integer DEFAULT NULL,
    p_failed text[] DEFAULT NULL, p_policy text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    INSERT INTO holdfast.job (run, queue, id, state, task, priority, key, run_at_ms, ready_at_ms, enqueued_at_ms,
        result_ttl_ms, dedup_key, dedup_until_ms, overrides, envelope, payload, chain, position, blockers,
        on_blocker_failed)
    VALUES (s.run, s.queue, s.id, CASE WHEN p_open > 0 OR p_failed IS NOT NULL THEN 'blocked'
            WHEN s.run_at_ms > p_now THEN 'scheduled' ELSE 'waiting' END, s.task, s.priority,
        s.key, s.run_at_ms, s.run_at_ms, s.enqueued_at_ms, s.result_ttl_ms, s.dedup_key, s.dedup_until_ms,
        s.overrides, s.envelope, s.payload, p_chain, p_position, p_open, p_policy)
    ON CONFLICT (queue, id) WHERE held DO NOTHING
    RETURNING * INTO j;
    IF NOT FOUND THEN
        DELETE FROM holdfast.blocker WHERE run = s.run AND p_open IS NOT NULL;
        RETURN false;
    END IF;
    PERFORM holdfast.count_move(j.queue, NULL, j.state);
    IF p_chain IS NOT NULL THEN
        UPDATE holdfast.job SET tail = s.run WHERE run = p_chain;
    END IF;
    PERFORM holdfast.add_to_order(ARRAY[s.run]);
    PERFORM holdfast.append_events(p_now, p_transition, ARRAY[s.run], p_cause, p_carries => true,
        p_payload => (holdfast.ensure_queue(s.queue)).payloads);
    IF p_failed IS NOT NULL THEN
        PERFORM holdfast.follow_blocker_failure(p_now, j, p_failed[1], p_failed[2]);
    END IF;
    RETURN true;
END $$;

CREATE OR REPLACE FUNCTION holdfast.find_duplicate(p_now bigint, s holdfast.successor, p_dedup jsonb)
RETURNS holdfast.job LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
    v_next holdfast.successor;
BEGIN
    FOR j IN
        SELECT * FROM holdfast.job
        WHERE (queue, dedup_key, run) >= (s.queue, s.dedup_key, 0)
            AND (queue, dedup_key, run) <= (s.queue, s.dedup_key, 9223372036854775807) AND dedup_key IS NOT NULL
            AND task IS NOT DISTINCT FROM s.task
        ORDER BY queue DESC, dedup_key DESC, run DESC LIMIT @MOST_SAME_DEDUP
    LOOP
        CONTINUE WHEN j.expires_at_ms <= p_now OR p_dedup -> 'exclude' ? j.id;
        CONTINUE WHEN holdfast.outcome(j) = 'cancelled'
            OR holdfast.outcome(j) IN ('completed', 'failed') AND p_dedup ->> 'scope' = 'incomplete';
        CONTINUE WHEN j.enqueued_at_ms + (p_dedup ->> 'window_ms')::bigint <= p_now;
        RETURN j;
    END LOOP;
    FOR v_next IN
        SELECT * FROM holdfast.successor t
        WHERE t.queue = s.queue AND t.dedup_key = s.dedup_key AND t.task IS NOT DISTINCT FROM s.task
    LOOP
        CONTINUE WHEN p_dedup -> 'exclude' ? v_next.id
            OR v_next.enqueued_at_ms + (p_dedup ->> 'window_ms')::bigint <= p_now;
        SELECT * INTO j FROM holdfast.job WHERE queue = v_next.queue AND id = v_next.id AND held;
        j.run := v_next.run;
        j.state := 'active';
        j.chain_state := NULL;
        RETURN j;
    END LOOP;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION holdfast.answer_for(j holdfast.job) RETURNS holdfast.answer LANGUAGE plpgsql AS $$
BEGIN
    j := holdfast.current_row(j);
    RETURN ROW(CASE WHEN holdfast.outcome(j) = 'completed' THEN 'completed' ELSE 'duplicate' END, j.id, j.run,
        holdfast.outcome(j), j.result, CASE WHEN holdfast.outcome(j) = 'failed' THEN j.error END)::holdfast.answer;
END $$;
