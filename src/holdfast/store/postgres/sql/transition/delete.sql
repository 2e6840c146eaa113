-- delete: blocked | scheduled | waiting | active | completed | failed | cancelled -> nothing
-- guard: somebody asks for it
-- effects: remove the run and everything that points to it, signal its handler, append event

CREATE OR REPLACE FUNCTION holdfast.delete(p_clock bigint, p_queue text, p_id text, p_actor text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
    f holdfast.job;
BEGIN
    PERFORM holdfast.act_as(p_actor);
    PERFORM holdfast.lock_queues(ARRAY[p_queue]);
    PERFORM holdfast.lock_whole_chains(ARRAY(SELECT run FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held));
    j := holdfast.lock_answering(v_now, p_queue, p_id);
    IF j.run IS NULL THEN
        RETURN 'missing';
    END IF;
    IF j.position = 0 THEN
        PERFORM holdfast.delete_jobs_of_chain(v_now, j);
        RETURN 'ok';
    END IF;
    f := holdfast.end_chain(v_now, j, 'cancelled');
    PERFORM holdfast.delete_run(v_now, j);
    IF f.run IS NOT NULL THEN
        PERFORM holdfast.after_chain_end(v_now, f, 'cancelled');
    END IF;
    RETURN 'ok';
END $$;

-- Delete one run; its handler, if it runs, is told to stop.
CREATE OR REPLACE FUNCTION holdfast.delete_run(p_now bigint, j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.append_removals(p_now, 'delete', NULL, ARRAY[j.run]);
    DELETE FROM holdfast.job WHERE run = j.run;
    PERFORM holdfast.count_move(j.queue, j.state, NULL);
    DELETE FROM holdfast.expiry
    WHERE queue = j.queue AND completed = (j.state = 'completed') AND at_ms = j.expires_at_ms AND runs = ARRAY[j.run];
    DELETE FROM holdfast.blocker WHERE run = j.run;
    PERFORM holdfast.remove_from_order(j);
    IF j.state = 'active' THEN
        PERFORM holdfast.abort_handler(j, 'deleted');
        PERFORM holdfast.wake(j.queue, 1);
    END IF;
    PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
    PERFORM holdfast.notify_end(p_now, j, 'cancelled');
END $$;
