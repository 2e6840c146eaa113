-- What happens in a transaction that is not the store's own, or not its own alone.

-- `enqueue` in a caller's transaction. One row with the status `elsewhere`, and nothing done, when the caller is
-- connected to another store than the one that `p_epoch` is of; its id is then the epoch that was found.
-- An id whose holder is going at this moment is looked at again: the caller cannot repeat its transaction for that.
DROP FUNCTION IF EXISTS holdfast.join_enqueue(text, bigint, text, text, boolean, text[], text, text[], bytea[], bigint[],
    bigint[], integer[], text[], bytea[], text[], bigint[], text[], text[], boolean, boolean, boolean, text, boolean,
    boolean);  -- of number 2, without the last two: its callers are understood
CREATE OR REPLACE FUNCTION holdfast.join_enqueue(p_epoch text, p_clock bigint, p_queue text, p_request text,
    p_fresh boolean, p_ids text[], p_task text, p_tasks text[], p_payloads bytea[], p_run_ats bigint[],
    p_delays bigint[], p_priorities integer[], p_keys text[], p_headers bytea[], p_overrides text[], p_ttls bigint[],
    p_dedups text[], p_watchers text[], p_update boolean, p_requeue boolean, p_update_payload boolean,
    p_update_run_at text, p_reset boolean, p_joined boolean, p_blockers text[] DEFAULT NULL,
    p_policies text[] DEFAULT NULL)
RETURNS SETOF holdfast.answer LANGUAGE plpgsql AS $$
DECLARE
    v_found text := (SELECT value FROM holdfast.meta WHERE name = 'epoch');
    v_tries integer := 0;
BEGIN
    IF v_found IS DISTINCT FROM p_epoch THEN
        RETURN QUERY SELECT 'elsewhere'::text, v_found, NULL::bigint, NULL::text, NULL::bytea, NULL::bytea;
        RETURN;
    END IF;
    LOOP
        BEGIN
            RETURN QUERY SELECT * FROM holdfast.enqueue(p_clock, p_queue, p_request, p_fresh, p_ids, p_task, p_tasks,
                p_payloads, p_run_ats, p_delays, p_priorities, p_keys, p_headers, p_overrides, p_ttls, p_dedups,
                p_watchers, p_update, p_requeue, p_update_payload, p_update_run_at, p_reset, p_joined, p_blockers, p_policies);
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            v_tries := v_tries + 1;
            IF v_tries >= 100 OR SQLERRM NOT LIKE 'the run that holds the id is going%' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END $$;

-- One completion in the transaction in which its handler has written. The session is not heard, nor unparked.
-- A queue whose row somebody else has is waited for in a second try, with all of them in their order: the handler's
-- transaction cannot be repeated for that.
CREATE OR REPLACE FUNCTION holdfast.join_complete(p_clock bigint, p_session text, p_queue text, p_id text,
    p_run bigint, p_attempt integer, p_result bytea, p_ttl bigint, p_next text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_strict boolean := (SELECT holdfast.strict(q) FROM holdfast.queue q WHERE q.name = p_queue);
    v_held text[] := CASE WHEN v_strict THEN ARRAY[p_queue] ELSE '{}' END;
    v_tries integer := 0;
    v_word text;
BEGIN
    LOOP
        BEGIN
            IF cardinality(v_held) > 0 THEN
                PERFORM holdfast.hold(v_held);
            END IF;
            PERFORM 1 FROM holdfast.session WHERE id = p_session AND NOT dead FOR KEY SHARE;
            IF NOT FOUND THEN
                RETURN 'stale';
            END IF;
            v_word := holdfast.settle(v_now, p_session, 'complete', p_queue, p_id, p_run, p_attempt, p_result, p_ttl,
                NULL, NULL, NULL, false, p_next);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            v_tries := v_tries + 1;
            IF v_tries >= 20 OR clock_timestamp() > statement_timestamp() + interval '5 seconds' THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(random() * 0.01);
            v_held := holdfast.reached(ARRAY[p_queue], ARRAY[p_run], ARRAY[p_next]);
        END;
    END LOOP;
    IF v_strict THEN
        PERFORM holdfast.wake(p_queue, 1);
    END IF;
    RETURN v_word;
END $$;
