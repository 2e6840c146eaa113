-- What sessions hold. The jobs of one claim are one grip; the row of each job says whether it is still held.

-- The runs that a worker holds in a queue, or in any.
CREATE OR REPLACE FUNCTION holdfast.held_runs(p_session text, p_queue text DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT r.run FROM (SELECT number, runs FROM holdfast.grip WHERE session = p_session OFFSET 0) g
        CROSS JOIN unnest(g.runs) AS r(run)
        CROSS JOIN LATERAL (SELECT queue, state, grip FROM holdfast.job WHERE run = r.run OFFSET 0) j
    WHERE j.state = 'active' AND j.grip = g.number AND (p_queue IS NULL OR j.queue = p_queue)
$$;

-- How many jobs of a queue are running, on all workers.
CREATE OR REPLACE FUNCTION holdfast.active_count(p_queue text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(*) FROM holdfast.serving v CROSS JOIN holdfast.held_runs(v.id, p_queue) WHERE v.queue = p_queue
$$;

-- A run is no longer held; the last one of a grip takes it along.
CREATE OR REPLACE FUNCTION holdfast.drop_lease(j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM holdfast.grip WHERE number = j.grip FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE holdfast.grip SET remaining = remaining - 1 WHERE number = j.grip;
        DELETE FROM holdfast.grip WHERE number = j.grip AND remaining <= 0;
    END IF;
END $$;
