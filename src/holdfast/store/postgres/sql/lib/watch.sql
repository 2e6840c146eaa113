-- Watchers: callers that wait for the end of a run.

-- Notify the watchers of this run, or of one that it absorbed, of its end. They will find the result: it stays long enough.
CREATE OR REPLACE FUNCTION holdfast.notify_run(p_now bigint, p_queue text, p_id text, p_first bigint, p_last bigint,
    p_state text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    w record;
    told boolean := false;
BEGIN
    FOR w IN
        DELETE FROM holdfast.watch WHERE run BETWEEN p_first AND p_last AND queue = p_queue AND id = p_id
        RETURNING run, address
    LOOP
        told := true;
        PERFORM holdfast.send(w.address, json_build_array(json_build_array(p_queue, p_id, w.run, p_state))::text);
    END LOOP;
    IF told THEN
        UPDATE holdfast.job SET expires_at_ms = p_now + @KEPT_FOR_WATCHERS_MS WHERE run = p_first AND expires_at_ms < p_now + @KEPT_FOR_WATCHERS_MS;
        IF FOUND THEN
            PERFORM holdfast.note_expiry(ARRAY[p_first]);
        END IF;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION holdfast.notify_end(p_now bigint, j holdfast.job, p_state text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.watch) THEN
        PERFORM holdfast.notify_run(p_now, j.queue, j.id, j.run, greatest(j.run, coalesce(j.absorbed_to, j.run)), p_state);
    END IF;
END $$;

-- True while the run is to be finished; it is locked, so that it stays so.
CREATE OR REPLACE FUNCTION holdfast.lock_unfinished(p_now bigint, p_queue text, p_id text, p_run bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    SELECT * INTO j FROM holdfast.job WHERE run = holdfast.find_run(p_queue, p_id, p_run) FOR NO KEY UPDATE;
    j := holdfast.current_row(j);
    RETURN j.run IS NOT NULL AND holdfast.outcome(j) NOT IN ('completed', 'failed', 'cancelled') AND coalesce(j.expires_at_ms > p_now, true);
END $$;

-- Make callers that asked for it watchers of the runs that answer. These are locked first, so that none ends unnoticed.
CREATE OR REPLACE FUNCTION holdfast.watch_answers(p_queue text, p_answers holdfast.answer[], p_watchers text[])
RETURNS holdfast.answer[] LANGUAGE plpgsql AS $$
DECLARE
    answer holdfast.answer;
    j holdfast.job;
    i integer;
BEGIN
    PERFORM holdfast.lock_jobs(ARRAY(SELECT a.run FROM unnest(p_answers) a WHERE a.status <> 'queued'));
    FOR i IN 1..cardinality(p_answers) LOOP
        answer := p_answers[i];
        CONTINUE WHEN p_watchers[i] IS NULL OR answer.state IN ('completed', 'failed', 'cancelled');
        IF answer.status = 'duplicate' THEN
            SELECT * INTO j FROM holdfast.job WHERE run = answer.run;
            IF holdfast.outcome(holdfast.current_row(j)) IN ('completed', 'failed', 'cancelled') THEN
                p_answers[i] := holdfast.answer_for(j);
                CONTINUE;
            END IF;
        END IF;
        INSERT INTO holdfast.watch (run, address, queue, id) VALUES (answer.run, p_watchers[i], p_queue, answer.id)
        ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN p_answers;
END $$;
