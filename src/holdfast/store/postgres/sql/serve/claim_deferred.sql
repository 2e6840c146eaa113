-- Fast path of `claim_runs`, for jobs that never ran and have no key, chain, blockers or dedup: their rows are left alone, and the
-- grip alone says who has them. test_postgres_fast_paths.py compares the two.
--
-- A job that waits has a place in the order. So a row that says `waiting`, of a job without a place, is a claimed job's, and its
-- grip has the rest. Whoever locks such a row writes that into it first (`write_current_row`) and then finds what `claim_runs` would have
-- left; `complete` writes it together with the end; whoever only reads gets the row as it would be (`current_row`).
-- Attempts only ever grow: a row that has one was written, and no grip that is left over is taken for its claim.

-- These waiting jobs, which are locked and have lost their place, are the session's now.
CREATE OR REPLACE FUNCTION holdfast.claim_deferred(p_now bigint, p_session text, c holdfast.plain_claim) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    e holdfast.event;
BEGIN
    WITH counted AS (
        INSERT INTO holdfast.move (queue, was, state, count) VALUES (c.queue, 'waiting', 'active', cardinality(c.runs))
    )
    INSERT INTO holdfast.grip (number, session, remaining, runs, claimed_at_ms, last_run)
    SELECT nextval('holdfast.grip_number'), p_session, cardinality(c.runs), c.runs, p_now, max(run) FROM unnest(c.runs) AS u(run);
    e.at_ms := p_now; e.queue := c.queue; e.transition := 'claim'; e.state := 'active'; e.attempt := 1; e.worker := p_session;
    e.runs := c.runs; e.ids := c.ids; e.tasks := c.tasks; e.priorities := c.priorities; e.run_ats := c.run_ats; e.elapsed := c.waits;
    PERFORM holdfast.append_pack(e);
END $$;

-- These runs of a queue, in this order, as `claim_deferred` takes them.
CREATE OR REPLACE FUNCTION holdfast.plain_claim_of(p_now bigint, p_queue text, p_runs bigint[]) RETURNS holdfast.plain_claim
LANGUAGE plpgsql STABLE AS $$
DECLARE
    c holdfast.plain_claim;
BEGIN
    SELECT array_agg(j.id), array_agg(j.task), array_agg(j.priority), array_agg(j.run_at_ms), array_agg(greatest(0, p_now - j.ready_at_ms))
    INTO c.ids, c.tasks, c.priorities, c.run_ats, c.waits
    FROM (SELECT run FROM unnest(p_runs) WITH ORDINALITY AS u(run, ord) ORDER BY ord) r CROSS JOIN LATERAL (
        SELECT id, task, priority, run_at_ms, ready_at_ms FROM holdfast.job WHERE run = r.run OFFSET 0) j;
    c.queue := p_queue; c.runs := p_runs;
    RETURN c;
END $$;
