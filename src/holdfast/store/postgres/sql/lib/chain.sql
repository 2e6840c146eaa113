-- Chains: what the row of the first job says of all jobs, and what follows from a chain's end.

-- The run of the first job of the chain that is meant: of one run, or of what answers for the id. NULL: there is none.
CREATE OR REPLACE FUNCTION holdfast.first_of_chain(p_now bigint, p_queue text, p_id text, p_run bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_run bigint;
    j holdfast.job;
BEGIN
    IF p_run IS NOT NULL THEN
        v_run := holdfast.find_run(p_queue, p_id, p_run);
    ELSE
        v_run := holdfast.answering_run(p_now, p_queue, p_id);
    END IF;
    SELECT * INTO j FROM holdfast.job WHERE run = v_run;
    RETURN CASE WHEN j.position > 0 THEN j.chain ELSE j.run END;
END $$;

-- Every job of these chains, by the runs of their first jobs.
CREATE OR REPLACE FUNCTION holdfast.jobs_of_chains(p_firsts bigint[]) RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN p_firsts || ARRAY(SELECT run FROM holdfast.job WHERE chain = ANY (p_firsts) AND run <> ALL (p_firsts));
END $$;

-- These chains, and with p_cascade every chain that waits for one of them: the runs of their first jobs.
CREATE OR REPLACE FUNCTION holdfast.waiting_chains(p_first bigint, p_cascade boolean) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    WITH RECURSIVE found(run) AS (
        SELECT p_first
        UNION
        SELECT coalesce(j.chain, j.run) FROM found
            CROSS JOIN LATERAL (SELECT run FROM holdfast.blocker WHERE blocker = found.run AND state IS NULL OFFSET 0) b
            JOIN holdfast.job j ON j.run = ANY (ARRAY[b.run])
        WHERE p_cascade
    )
    SELECT array_agg(run) FROM found
$$;

-- What is meant is still the chain that was found, or else the call is done again.
CREATE OR REPLACE FUNCTION holdfast.check_chain(p_now bigint, p_queue text, p_id text, p_run bigint, p_first bigint)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_first IS DISTINCT FROM holdfast.first_of_chain(p_now, p_queue, p_id, p_run) THEN
        RAISE lock_not_available USING MESSAGE = 'the id has just got another run; try again';
    END IF;
END $$;

-- End the chain of a later job, and return its first job's row as it was; NULL when the chain continues, or is gone.
CREATE OR REPLACE FUNCTION holdfast.end_chain(p_now bigint, j holdfast.job, p_state text) RETURNS holdfast.job
LANGUAGE plpgsql AS $$
DECLARE
    f holdfast.job;
    q holdfast.queue;
    v_kept bigint;
BEGIN
    SELECT * INTO f FROM holdfast.job WHERE run = j.chain FOR UPDATE;
    IF NOT FOUND THEN  -- nothing else will take its jobs along
        q := holdfast.ensure_queue(j.queue);
        UPDATE holdfast.job SET expires_at_ms = p_now + coalesce(result_ttl_ms, q.result_ttl_ms)
        WHERE chain = j.chain AND expires_at_ms IS NULL AND finished_at_ms IS NOT NULL;
        PERFORM holdfast.note_expiry(ARRAY(SELECT run FROM holdfast.job WHERE chain = j.chain));
        RETURN NULL;
    ELSIF f.chain_state IS DISTINCT FROM 'open' OR f.tail IS DISTINCT FROM j.run THEN
        RETURN NULL;
    END IF;
    q := holdfast.ensure_queue(f.queue);
    v_kept := CASE p_state WHEN 'failed' THEN q.failed_ms WHEN 'completed' THEN coalesce(q.completed_ms, 0) ELSE 0 END;
    UPDATE holdfast.job t
    SET chain_state = p_state, ended_at_ms = p_now, held = t.held AND p_state <> 'cancelled', result = l.result,
        error = CASE WHEN p_state = 'failed' THEN l.error END,
        free_at_ms = CASE WHEN p_state = 'cancelled' THEN p_now ELSE p_now + coalesce(t.result_ttl_ms, q.result_ttl_ms) END,
        expires_at_ms = greatest(p_now + greatest(coalesce(t.result_ttl_ms, q.result_ttl_ms), v_kept),
            coalesce(t.dedup_until_ms, 0))
    FROM holdfast.job l WHERE t.run = f.run AND l.run = j.run;
    PERFORM holdfast.note_expiry(ARRAY[f.run]);
    RETURN f;
END $$;

-- What follows from the end of a chain, by the row of its first job: its successor starts, dependants and watchers learn of it.
CREATE OR REPLACE FUNCTION holdfast.after_chain_end(p_now bigint, f holdfast.job, p_state text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.start_successor(p_now, f);
    PERFORM holdfast.resolve_blockers(p_now, ARRAY[f.run]);
    PERFORM holdfast.notify_end(p_now, f, p_state);
END $$;

-- What follows from a run's end, by its row as it was: its chain ends, dependants and watchers learn of it.
CREATE OR REPLACE FUNCTION holdfast.after_end(p_now bigint, j holdfast.job, p_state text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    f holdfast.job := j;
BEGIN
    IF j.blockers IS NOT NULL THEN
        UPDATE holdfast.blocker SET state = 'abandoned' WHERE run = j.run AND coalesce(state, '') = '';
    END IF;
    IF j.position > 0 THEN
        f := holdfast.end_chain(p_now, j, p_state);
        PERFORM holdfast.notify_end(p_now, j, p_state);
    END IF;
    IF f.run IS NOT NULL THEN
        PERFORM holdfast.after_chain_end(p_now, f, p_state);
    END IF;
END $$;
