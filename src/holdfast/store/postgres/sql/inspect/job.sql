-- Reading single jobs. Any other reading is planned anew for each call, by the size that the tables have then (statements.sql).

-- The rows of these runs, each with its place in the array.
CREATE OR REPLACE FUNCTION holdfast.job_rows(p_clock bigint, p_runs bigint[])
RETURNS TABLE (ord bigint, j holdfast.job, now_ms bigint, successor boolean, chain_ref text[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT t.ord, CASE WHEN j.state = 'waiting' THEN holdfast.current_row(j) ELSE j END, holdfast.clock(p_clock),
        EXISTS (SELECT 1 FROM holdfast.successor s WHERE s.queue = j.queue AND s.id = j.id
            AND (j.state = 'active' OR j.chain_state = 'open') OFFSET 0),
        (SELECT ARRAY[f.queue, f.id] FROM holdfast.job f WHERE f.run = j.chain)
    FROM unnest(p_runs) WITH ORDINALITY AS t(run, ord) JOIN holdfast.job j ON j.run = ANY (ARRAY[t.run]);
END $$;

-- The row of the run that answers for an id.
CREATE OR REPLACE FUNCTION holdfast.job_by_id(p_clock bigint, p_queue text, p_id text)
RETURNS TABLE (ord bigint, j holdfast.job, now_ms bigint, successor boolean, chain_ref text[])
LANGUAGE plpgsql STABLE /* planner */ AS $$
BEGIN
    RETURN QUERY SELECT * FROM holdfast.job_rows(p_clock, ARRAY[holdfast.answering_run(holdfast.clock(p_clock), p_queue, p_id)]);
END $$;

-- These runs of these ids, or those that absorbed them.
CREATE OR REPLACE FUNCTION holdfast.jobs_by_run(p_clock bigint, p_queues text[], p_ids text[], p_runs bigint[])
RETURNS TABLE (ord bigint, j holdfast.job, now_ms bigint, successor boolean, chain_ref text[])
LANGUAGE plpgsql STABLE /* planner */ AS $$
DECLARE
    v_found bigint[] := ARRAY(SELECT coalesce(
            (SELECT o.run FROM holdfast.job o WHERE o.run = t.run AND o.queue = t.queue AND o.id = t.id),
            holdfast.find_run(t.queue, t.id, t.run))
        FROM unnest(p_queues, p_ids, p_runs) WITH ORDINALITY AS t(queue, id, run, place) ORDER BY t.place);
BEGIN
    RETURN QUERY SELECT * FROM holdfast.job_rows(p_clock, v_found);
END $$;

-- The run of the first job of the chain that is meant, as `first_of_chain` has it.
CREATE OR REPLACE FUNCTION holdfast.chain_by_job(p_clock bigint, p_queue text, p_id text, p_run bigint) RETURNS bigint
LANGUAGE plpgsql STABLE /* planner */ AS $$
BEGIN
    RETURN holdfast.first_of_chain(holdfast.clock(p_clock), p_queue, p_id, p_run);
END $$;

-- True while a job of these queues waits to be claimed, or, once started, for another attempt.
CREATE OR REPLACE FUNCTION holdfast.pending(p_clock bigint, p_queues text[]) RETURNS boolean
LANGUAGE plpgsql STABLE /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
BEGIN
    RETURN EXISTS (SELECT 1 FROM holdfast.queue q WHERE q.name = ANY (p_queues) AND NOT q.paused AND (
        EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = q.name AND r.key IS NULL OFFSET 0)
        OR EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = q.name AND r.key IS NOT NULL OFFSET 0)
        OR EXISTS (SELECT 1 FROM holdfast.suspect s WHERE s.queue = q.name OFFSET 0)
        OR EXISTS (SELECT 1 FROM holdfast.job j WHERE j.queue = q.name AND j.due_at_ms IS NOT NULL
            AND (j.attempts > 0 OR j.due_at_ms <= v_now) OFFSET 0)));
END $$;

-- True when the envelope of a job has the tag. p_encoded, the tag as it stands in an envelope, spares most of them the decoding.
CREATE OR REPLACE FUNCTION holdfast.has_tag(p_envelope bytea, p_tag text, p_encoded bytea) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF p_envelope IS NULL OR position(p_encoded IN p_envelope) = 0 THEN
        RETURN false;
    END IF;
    BEGIN
        RETURN coalesce(convert_from(p_envelope, 'UTF8')::jsonb -> 'tags' ? p_tag, false);
    EXCEPTION WHEN data_exception THEN
        RETURN false;  -- one that cannot be read has no tag
    END;
END $$;
