-- The next job of a chain, one by one.

-- One next job that has a key, waits for others, or whose id another job has: then it gets another id.
CREATE OR REPLACE FUNCTION holdfast.continue_chain(p_now bigint, n jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    s holdfast.successor;
    v_open integer;
    v_failed text[];
BEGIN
    s.queue := n ->> 'queue'; s.id := n ->> 'id'; s.run := (n ->> 'run')::bigint; s.task := n ->> 'task';
    s.priority := coalesce((n ->> 'priority')::integer, 0); s.key := n ->> 'key'; s.run_at_ms := (n ->> 'at')::bigint;
    s.enqueued_at_ms := p_now; s.result_ttl_ms := (n ->> 'ttl')::bigint; s.overrides := n -> 'overrides';
    s.envelope := decode(n ->> 'envelope', 'hex'); s.payload := decode(n ->> 'payload', 'hex');
    LOOP
        IF n ? 'blockers' THEN
            SELECT w.v_open, w.v_failed INTO v_open, v_failed
            FROM holdfast.add_blockers(p_now, s.run, n -> 'blockers', n ->> 'on_blocker_failed') w;
        END IF;
        EXIT WHEN holdfast.insert_run(p_now, s, 'enqueue', NULL, (n ->> 'chain')::bigint, (n ->> 'position')::integer,
            v_open, v_failed, n ->> 'on_blocker_failed');
        s.id := right(s.id || '/' || s.run, @MOST_ID_BYTES);
    END LOOP;
    PERFORM holdfast.refresh_lane(p_now, s.queue, s.key);
    PERFORM holdfast.wake_for(p_now, s.queue, s.run_at_ms);
END $$;
