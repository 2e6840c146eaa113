-- delete: blocked | scheduled | waiting | active | completed | failed | cancelled -> nothing
-- guard: somebody asks for it
-- effects: remove the run and everything that points to it, signal its handler, append event

CREATE OR REPLACE FUNCTION holdfast.delete(p_clock bigint, p_queue text, p_id text) RETURNS text
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
    f holdfast.job;
BEGIN
    PERFORM holdfast.hold(ARRAY[p_queue]);
    PERFORM holdfast.hold_whole(ARRAY(SELECT run FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held));
    j := holdfast.answering(v_now, p_queue, p_id);
    IF j.run IS NULL THEN
        RETURN 'missing';
    END IF;
    IF j.position = 0 THEN
        PERFORM holdfast.remove_chain(v_now, j);
        RETURN 'ok';
    END IF;
    f := holdfast.end_chain(v_now, j, 'cancelled');
    PERFORM holdfast.remove(v_now, j);
    IF f.run IS NOT NULL THEN
        PERFORM holdfast.chain_over(v_now, f, 'cancelled');
    END IF;
    RETURN 'ok';
END $$;
