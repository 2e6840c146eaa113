-- Fast path of `claim_runs`, for jobs that never ran and have no key, chain, blockers or dedup: their rows are left alone, and the
-- grip alone says who has them. test_postgres_fast_paths.py compares the two.
--
-- A job that waits has a place in the order. So a row that says `waiting`, of a job without a place, is a claimed job's, and its
-- grip has the rest. Whoever locks such a row writes that into it first (`write_claim`) and then finds what `claim_runs` would have
-- left; `complete` writes it together with the end; whoever only reads gets the row as it would be (`as_claimed`).
-- Attempts only ever grow: a row that has one was written, and no grip that is left over is taken for its claim.

-- These waiting runs, which are locked and have lost their place, are the session's now.
CREATE OR REPLACE FUNCTION holdfast.claim_deferred(p_now bigint, p_session text, p_queue text, p_runs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    e holdfast.event;
BEGIN
    WITH counted AS (
        INSERT INTO holdfast.move (queue, was, state, count) VALUES (p_queue, 'waiting', 'active', cardinality(p_runs))
    ), held AS (
        INSERT INTO holdfast.grip (number, session, remaining, runs, claimed_at_ms, last_run)
        SELECT nextval('holdfast.grip_number'), p_session, cardinality(p_runs), p_runs, p_now, max(run) FROM unnest(p_runs) AS u(run)
    )
    SELECT array_agg(run), array_agg(id), array_agg(task), array_agg(priority), array_agg(run_at_ms),
        array_agg(greatest(0, p_now - ready_at_ms))
    INTO e.runs, e.ids, e.tasks, e.priorities, e.run_ats, e.elapsed
    FROM (SELECT c.run, j.* FROM (SELECT run FROM unnest(p_runs) AS u(run) ORDER BY run) c CROSS JOIN LATERAL (
        SELECT id, task, priority, run_at_ms, ready_at_ms FROM holdfast.job WHERE run = c.run OFFSET 0) j) t;
    e.at_ms := p_now; e.queue := p_queue; e.transition := 'claim'; e.state := 'active'; e.attempt := 1; e.worker := p_session;
    PERFORM holdfast.append_pack(e);
END $$;
