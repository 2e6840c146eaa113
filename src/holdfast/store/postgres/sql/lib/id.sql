-- Which run an id stands for, and where that run, or its chain, is.

-- The run that holds an id, locked. A finished one whose TTL is over lets go of it here. One that let go of it while it was
-- waited for, to its successor, is not the answer: then there is another.
CREATE OR REPLACE FUNCTION holdfast.lock_holder(p_now bigint, p_queue text, p_id text) RETURNS holdfast.job
LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    LOOP
        SELECT * INTO j FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held FOR UPDATE;
        EXIT WHEN FOUND OR NOT EXISTS (SELECT 1 FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held);
    END LOOP;
    RETURN holdfast.let_go_when_over(p_now, j);
END $$;

-- The holder of an id, which is locked, as it is now; NULL: its TTL was over.
CREATE OR REPLACE FUNCTION holdfast.let_go_when_over(p_now bigint, j holdfast.job) RETURNS holdfast.job LANGUAGE plpgsql AS $$
BEGIN
    j := holdfast.write_current_row(j);
    IF j.free_at_ms <= p_now THEN
        UPDATE holdfast.job SET held = false WHERE run = j.run;
        RETURN NULL;
    END IF;
    RETURN j;
END $$;

-- The same where others are locked already: what another call has is not waited for, and the call is done again. A caller's
-- transaction cannot be.
CREATE OR REPLACE FUNCTION holdfast.lock_holder_too(p_now bigint, p_queue text, p_id text) RETURNS holdfast.job
LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    IF current_setting('hf.joined', true) = 'on' THEN
        RETURN holdfast.lock_holder(p_now, p_queue, p_id);
    END IF;
    SELECT * INTO j FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held FOR UPDATE NOWAIT;
    RETURN holdfast.let_go_when_over(p_now, j);
END $$;

-- The latest run of an id that does not hold it and is still kept.
CREATE OR REPLACE FUNCTION holdfast.latest_past_run(p_queue text, p_id text, p_now bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT run FROM holdfast.job
        WHERE (queue, id, run) >= (p_queue, p_id, 0) AND (queue, id, run) <= (p_queue, p_id, 9223372036854775807)
            AND NOT held AND (expires_at_ms IS NULL OR expires_at_ms > p_now)
        ORDER BY queue DESC, id DESC, run DESC LIMIT 1);
END $$;

-- The run that answers for an id: the one that holds it, or else its latest.
CREATE OR REPLACE FUNCTION holdfast.answering_run(p_now bigint, p_queue text, p_id text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        (SELECT j.run FROM holdfast.job j WHERE j.queue = p_queue AND j.id = p_id AND j.held
            AND coalesce((holdfast.current_row(j)).expires_at_ms > p_now, true)),
        holdfast.latest_past_run(p_queue, p_id, p_now));
END $$;

-- The run that holds an id, or else its latest that is still kept; locked.
CREATE OR REPLACE FUNCTION holdfast.lock_answering(p_now bigint, p_queue text, p_id text) RETURNS holdfast.job
LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job := holdfast.lock_holder(p_now, p_queue, p_id);
BEGIN
    IF j.run IS NULL THEN
        SELECT * INTO j FROM holdfast.job WHERE run = holdfast.latest_past_run(p_queue, p_id, p_now) FOR UPDATE;
    END IF;
    RETURN j;
END $$;

-- The row of one run of an id, or of the run that absorbed it.
CREATE OR REPLACE FUNCTION holdfast.find_run(p_queue text, p_id text, p_run bigint) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN coalesce(
        (SELECT run FROM holdfast.job WHERE run = p_run AND queue = p_queue AND id = p_id),
        (SELECT run FROM holdfast.job WHERE queue = p_queue AND id = p_id AND held
            AND run + 0 <= p_run AND absorbed_to >= p_run),
        (SELECT run FROM holdfast.job WHERE (queue, id, run) >= (p_queue, p_id, 0) AND (queue, id, run) <= (p_queue, p_id, p_run)
            AND NOT held AND absorbed_to >= p_run ORDER BY queue DESC, id DESC, run DESC LIMIT 1));
END $$;

-- Where the chain stands that a job began: `active` while another job of it is on; else its own state.
CREATE OR REPLACE FUNCTION holdfast.outcome(j holdfast.job) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN j.chain_state IS NULL THEN j.state WHEN j.chain_state = 'open' THEN 'active' ELSE j.chain_state END;
END $$;

-- How the chain ended that a job began: `open` while it, or a later job of it, is to be done.
CREATE OR REPLACE FUNCTION holdfast.end_state(j holdfast.job) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN j.chain_state IS NOT NULL THEN j.chain_state
        WHEN j.state IN ('completed', 'failed', 'cancelled') THEN j.state WHEN j.state IS NOT NULL THEN 'open' END
$$;
