-- A completion in a transaction in which a handler writes, too.

-- One completion in the transaction in which its handler has written. The session is not heard, nor unparked.
-- A queue whose row another call has locked is waited for in a second try, with all of them in their order: the handler's
-- transaction cannot be repeated for that.
CREATE OR REPLACE FUNCTION holdfast.complete_in_transaction(p_clock bigint, p_session text, p_queue text, p_id text,
    p_run bigint, p_attempt integer, p_result bytea, p_ttl bigint, p_next text)
RETURNS text LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_strict boolean := (SELECT holdfast.has_limits(q) FROM holdfast.queue q WHERE q.name = p_queue);
    v_held text[] := CASE WHEN v_strict THEN ARRAY[p_queue] ELSE '{}' END;
    v_tries integer := 0;
    v_word text;
    s holdfast.settlement;
BEGIN
    s.kind := 'complete'; s.queue := p_queue; s.id := p_id; s.run := p_run; s.attempt := p_attempt; s.data := p_result;
    s.ttl := p_ttl; s.next := p_next;
    LOOP
        BEGIN
            IF cardinality(v_held) > 0 THEN
                PERFORM holdfast.lock_queues(v_held);
            END IF;
            PERFORM 1 FROM holdfast.session WHERE id = p_session AND NOT dead FOR KEY SHARE;
            IF NOT FOUND THEN
                RETURN 'stale';
            END IF;
            v_word := holdfast.settle(v_now, p_session, s, p_grips => false);
            EXIT;
        EXCEPTION WHEN lock_not_available THEN
            v_tries := v_tries + 1;
            IF v_tries >= 20 OR clock_timestamp() > statement_timestamp() + interval '5 seconds' THEN
                RAISE;
            END IF;
            PERFORM pg_sleep(random() * 0.01);
            v_held := holdfast.queues_reached(ARRAY[p_queue], ARRAY[p_run], ARRAY[p_next]);
        END;
    END LOOP;
    IF v_strict THEN
        PERFORM holdfast.wake(p_queue, 1);
    END IF;
    RETURN v_word;
END $$;
