-- The entry point of `enqueue`: it chooses the shortest way that these jobs may take.

-- Every job has its answer, in the order given. An array that is NULL stands for nothing but NULLs.
-- p_task: the task of all jobs, where p_tasks is NULL. p_fresh: their ids were made for this call. p_updates, p_requeues: what
-- happens to an id that is there, unfinished or failed. p_epoch: in a caller's transaction, the store that is meant. The answer is
-- one row with the status `elsewhere`, and nothing is done, when this is another one; its id is then the epoch that was found.
CREATE OR REPLACE FUNCTION holdfast.enqueue(
    p_clock             bigint,
    p_queue             text,
    p_ids               text[],
    p_task              text,
    p_tasks             text[],
    p_payloads          bytea[],
    p_priorities        integer[],
    p_envelopes           bytea[],
    p_overrides         text[],
    p_ttls              bigint[],
    p_watchers          text[],
    p_request           text,
    p_epoch             text,
    p_fresh             boolean,
    p_run_ats           bigint[],
    p_delays            bigint[],
    p_keys              text[],
    p_dedups            text[],
    p_blockers          text[],
    p_on_blocker_failed text[],
    p_updates           boolean,
    p_requeues          boolean,
    p_update_payload    boolean,
    p_update_run_at     text,
    p_reset_counts      boolean)
RETURNS SETOF holdfast.answer LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    b holdfast.batch;
    v_answers holdfast.answer[];
BEGIN
    IF p_request IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('holdfast.request ' || p_request, 0));
        SELECT answers INTO v_answers FROM holdfast.request WHERE id = p_request;
        IF FOUND THEN
            RETURN QUERY SELECT * FROM unnest(v_answers);
            RETURN;
        END IF;
    END IF;
    b.queue := p_queue; b.ids := p_ids; b.task := p_task; b.tasks := p_tasks; b.payloads := p_payloads;
    b.run_ats := p_run_ats; b.delays := p_delays; b.priorities := p_priorities; b.keys := p_keys; b.envelopes := p_envelopes;
    b.overrides := p_overrides; b.ttls := p_ttls; b.dedups := p_dedups; b.watchers := p_watchers; b.blockers := p_blockers;
    b.on_blocker_failed := p_on_blocker_failed; b.updates := p_updates; b.requeues := p_requeues;
    b.update_payload := p_update_payload; b.update_run_at := p_update_run_at; b.reset_counts := p_reset_counts;
    IF p_epoch IS NULL THEN
        v_answers := holdfast.enqueue_batch(v_now, b, p_fresh, false);
    ELSE
        v_answers := holdfast.enqueue_joined(v_now, b, p_fresh, p_epoch, p_clock);
    END IF;
    IF p_request IS NOT NULL THEN
        INSERT INTO holdfast.request (id, at_ms, answers) VALUES (p_request, v_now, v_answers);
    END IF;
    RETURN QUERY SELECT * FROM unnest(v_answers);
END $$;

-- The answers to a batch. p_joined: in a caller's transaction, in which no row that a worker needs may be locked until its end.
CREATE OR REPLACE FUNCTION holdfast.enqueue_batch(p_now bigint, b holdfast.batch, p_fresh boolean, p_joined boolean)
RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue := holdfast.ensure_queue(b.queue);
    v_new boolean := NOT b.updates AND NOT b.requeues AND b.dedups IS NULL AND b.blockers IS NULL;
BEGIN
    IF b.keys IS NOT NULL THEN  -- whose lanes change
        PERFORM holdfast.lock_queues(ARRAY[b.queue]);
    END IF;
    IF v_new AND NOT p_fresh THEN
        v_new := NOT EXISTS (SELECT 1 FROM unnest(b.ids) AS u(id) CROSS JOIN LATERAL (
                SELECT c.free_at_ms FROM holdfast.job t CROSS JOIN LATERAL holdfast.current_row(t) c
                WHERE t.queue = b.queue AND t.id = u.id AND t.held OFFSET 0) h
            WHERE h.free_at_ms <= p_now);
    END IF;
    IF v_new THEN
        RETURN holdfast.enqueue_new(p_now, q, b);
    END IF;
    IF b.keys IS NULL AND (NOT p_joined OR b.updates OR b.requeues OR b.dedups IS NOT NULL) THEN
        PERFORM holdfast.lock_queues(ARRAY[b.queue]);
    END IF;
    RETURN holdfast.enqueue_each(p_now, b);
END $$;

-- The same in a caller's transaction. An id whose holder is going at this moment is looked at again: the caller cannot
-- repeat its transaction for that. p_clock: the time that was given, for `recheck_blockers` at the caller's commit.
CREATE OR REPLACE FUNCTION holdfast.enqueue_joined(p_now bigint, b holdfast.batch, p_fresh boolean, p_epoch text,
    p_clock bigint) RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    v_found text := (SELECT value FROM holdfast.meta WHERE name = 'epoch');
    v_answers holdfast.answer[];
    v_tries integer := 0;
BEGIN
    IF v_found IS DISTINCT FROM p_epoch THEN
        RETURN ARRAY[ROW('elsewhere', v_found, NULL, NULL, NULL, NULL)::holdfast.answer];
    END IF;
    LOOP
        BEGIN
            PERFORM set_config('hf.joined', 'on', true);
            PERFORM set_config('hf.clock', p_clock::text, true);
            v_answers := holdfast.enqueue_batch(p_now, b, p_fresh, true);
            PERFORM set_config('hf.joined', '', true);
            RETURN v_answers;
        EXCEPTION WHEN lock_not_available THEN
            v_tries := v_tries + 1;
            IF v_tries >= 100 OR SQLERRM NOT LIKE 'the run that holds the id is going%' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END $$;
