-- What sessions hold. The jobs of one claim are one grip; the row of each job says whether it is still held, but for claims that
-- are not written there yet (claim_deferred.sql).

-- The runs that a worker holds in a queue, or in any.
CREATE OR REPLACE FUNCTION holdfast.held_runs(p_session text, p_queue text DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE sql STABLE AS $$
    SELECT r.run FROM (SELECT number, runs, claimed_at_ms FROM holdfast.grip WHERE session = p_session OFFSET 0) g
        CROSS JOIN unnest(g.runs) AS r(run)
        CROSS JOIN LATERAL (SELECT queue, state, attempts, grip FROM holdfast.job WHERE run = r.run OFFSET 0) j
    WHERE (j.state = 'active' AND j.grip = g.number OR j.state = 'waiting' AND j.attempts = 0 AND g.claimed_at_ms IS NOT NULL)
        AND (p_queue IS NULL OR j.queue = p_queue)
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

-- The grip that has a job whose row does not say so; NULL for any other job. Only a job without a place in the order is looked for.
CREATE OR REPLACE FUNCTION holdfast.deferred_grip(j holdfast.job) RETURNS holdfast.grip LANGUAGE plpgsql STABLE AS $$
DECLARE
    g holdfast.grip;
BEGIN
    IF j.state = 'waiting' AND j.attempts = 0 AND j.key IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast.ready
        WHERE queue = j.queue AND key IS NULL AND rank = -j.priority AND run_at_ms = j.run_at_ms AND run = j.run) THEN
        SELECT * INTO g FROM holdfast.grip WHERE last_run >= j.run AND j.run = ANY (runs) ORDER BY last_run LIMIT 1;
    END IF;
    RETURN g;
END $$;

-- The row of a job as it would be had its claim been written.
CREATE OR REPLACE FUNCTION holdfast.as_claimed(j holdfast.job) RETURNS holdfast.job LANGUAGE plpgsql STABLE AS $$
DECLARE
    g holdfast.grip;
BEGIN
    IF j.state = 'waiting' AND j.attempts = 0 THEN
        g := holdfast.deferred_grip(j);
        IF g.number IS NOT NULL THEN
            j.state := 'active'; j.attempts := 1; j.session := g.session; j.grip := g.number; j.claimed_at_ms := g.claimed_at_ms;
        END IF;
    END IF;
    RETURN j;
END $$;

-- The same for a job that is locked: its claim is written now.
CREATE OR REPLACE FUNCTION holdfast.write_claim(j holdfast.job) RETURNS holdfast.job LANGUAGE plpgsql AS $$
DECLARE
    v_state text := j.state;
BEGIN
    IF v_state = 'waiting' AND j.attempts = 0 THEN
        j := holdfast.as_claimed(j);
        IF j.state = 'active' THEN
            UPDATE holdfast.job SET state = j.state, attempts = j.attempts, session = j.session, grip = j.grip,
                claimed_at_ms = j.claimed_at_ms
            WHERE run = j.run;
        END IF;
    END IF;
    RETURN j;
END $$;

CREATE OR REPLACE FUNCTION holdfast.write_claims(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    FOR j IN SELECT * FROM holdfast.job WHERE run = ANY (p_runs) AND state = 'waiting' AND attempts = 0 ORDER BY run LOOP
        PERFORM holdfast.write_claim(j);
    END LOOP;
END $$;
