-- delete: blocked | scheduled | waiting | active | completed | failed | cancelled -> nothing
-- guard: somebody asks for it
-- effects: remove the run and everything that points to it, signal its handler, append event

CREATE OR REPLACE FUNCTION holdfast.delete(p_clock bigint, p_queue text, p_id text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
BEGIN
    PERFORM holdfast.hold(ARRAY[p_queue]);
    j := holdfast.answering(v_now, p_queue, p_id);
    IF j.run IS NULL THEN
        RETURN 'missing';
    END IF;
    PERFORM holdfast.append_gone(v_now, 'delete', ARRAY[j.run]);
    DELETE FROM holdfast.job WHERE run = j.run;
    DELETE FROM holdfast.expiry WHERE queue = j.queue AND at_ms = j.expires_at_ms AND runs = ARRAY[j.run];
    PERFORM holdfast.displace(j);
    IF j.state = 'active' THEN
        PERFORM holdfast.drop_successor(v_now, j, false);
        PERFORM holdfast.stop(j, 'deleted');
        PERFORM holdfast.wake(p_queue, 1);
    END IF;
    PERFORM holdfast.recheck(v_now, p_queue, j.key);
    PERFORM holdfast.tell_watchers(v_now, j, 'cancelled');
    RETURN 'ok';
END $$;
