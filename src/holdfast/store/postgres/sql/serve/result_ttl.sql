-- How long results are kept, changed afterwards.

-- A finished job's result is kept for so long from now; an unfinished one's from its end.
CREATE OR REPLACE FUNCTION holdfast.set_result_ttl(p_clock bigint, p_queue text, p_id text, p_ttl bigint,
    p_actor text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    j holdfast.job;
    q holdfast.queue;
    v_kept bigint;
BEGIN
    q := holdfast.ensure_queue(p_queue);
    j := holdfast.lock_holder(v_now, p_queue, p_id);
    IF j.run IS NULL THEN
        RETURN 'missing';
    END IF;
    v_kept := CASE WHEN holdfast.outcome(j) = 'failed' THEN q.failed_ms ELSE coalesce(q.completed_ms, 0) END;
    UPDATE holdfast.job
    SET result_ttl_ms = p_ttl,
        free_at_ms = CASE WHEN finished_at_ms IS NOT NULL AND chain_state IS DISTINCT FROM 'open' THEN v_now + p_ttl END,
        expires_at_ms = CASE WHEN finished_at_ms IS NOT NULL AND chain_state IS DISTINCT FROM 'open'
            THEN greatest(v_now + p_ttl, coalesce(ended_at_ms, finished_at_ms) + v_kept, coalesce(dedup_until_ms, 0)) END
    WHERE run = j.run;
    PERFORM holdfast.note_expiry(ARRAY[j.run]);
    PERFORM holdfast.append_action(v_now, p_queue, jsonb_build_object('name', 'set_result_ttl', 'id', p_id, 'run', j.run,
        'message', jsonb_build_object('ttl_ms', p_ttl)::text, 'actor', p_actor));
    RETURN 'ok';
END $$;

-- The same for runs by their numbers; NULL: as their queue says. One that is being settled now is left as it is: it would be waited for in the
-- wrong order, and only stays for longer.
CREATE OR REPLACE FUNCTION holdfast.keep_runs(p_clock bigint, p_queue text, p_first bigint, p_last bigint, p_ttl bigint)
RETURNS void LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    q holdfast.queue := holdfast.ensure_queue(p_queue);
    v_free_at bigint := v_now + coalesce(p_ttl, q.result_ttl_ms);
    v_places tid[];
BEGIN
    -- Written so that the planner sees no use for the index of ids, in which it would go through the whole queue.
    v_places := ARRAY(SELECT ctid FROM holdfast.job WHERE run BETWEEN p_first AND p_last AND queue || '' = p_queue
        AND CASE WHEN held THEN true ELSE false END FOR UPDATE SKIP LOCKED);
    IF holdfast.any_deferred(p_first, p_last) THEN
        PERFORM holdfast.write_current_rows(ARRAY(SELECT run FROM holdfast.job WHERE ctid = ANY (v_places)));
        v_places := ARRAY(SELECT ctid FROM holdfast.job WHERE run BETWEEN p_first AND p_last AND queue || '' = p_queue
            AND CASE WHEN held THEN true ELSE false END FOR UPDATE SKIP LOCKED);  -- a row that was written is in another place
    END IF;
    WITH kept AS (
        UPDATE holdfast.job
        SET result_ttl_ms = p_ttl,
            free_at_ms = CASE WHEN finished_at_ms IS NOT NULL AND chain_state IS DISTINCT FROM 'open' THEN v_free_at END,
            expires_at_ms = CASE WHEN finished_at_ms IS NOT NULL AND chain_state IS DISTINCT FROM 'open'
                THEN greatest(v_free_at, coalesce(dedup_until_ms, 0), coalesce(ended_at_ms, finished_at_ms)
                    + CASE coalesce(chain_state, state) WHEN 'failed' THEN q.failed_ms
                        WHEN 'completed' THEN coalesce(q.completed_ms, 0) ELSE 0 END) END
        WHERE ctid = ANY (v_places)
        RETURNING run, expires_at_ms, state = 'completed' AS completed
    )
    INSERT INTO holdfast.expiry (queue, at_ms, runs, completed)  -- as `note_expiry` does
    SELECT p_queue, expires_at_ms, array_agg(run), completed FROM kept WHERE expires_at_ms IS NOT NULL
    GROUP BY expires_at_ms, completed;
END $$;
