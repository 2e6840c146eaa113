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

-- Runs of one block that end together have one row of `expiry`, by which each is found: a number of runs that follow each other.
CREATE OR REPLACE FUNCTION holdfast.block_of(p_run bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT p_run / 256
$$;

-- The row of a job as it would be had its claim and its end been written (claim_deferred.sql, complete_deferred.sql): its row says that
-- it waits, but it is in the row of those that ended with it; or it has no place in the order, and is in the grip of its session.
CREATE OR REPLACE FUNCTION holdfast.current_row(j holdfast.job) RETURNS holdfast.job LANGUAGE plpgsql STABLE AS $$
DECLARE
    x holdfast.expiry;
    g holdfast.grip;
BEGIN
    IF j.state IS DISTINCT FROM 'waiting' OR j.attempts > 0 OR j.key IS NOT NULL THEN
        RETURN j;
    END IF;
    SELECT * INTO x FROM holdfast.expiry WHERE block = holdfast.block_of(j.run) AND j.run = ANY (runs) LIMIT 1;
    IF FOUND THEN
        j.state := 'completed'; j.attempts := 1; j.session := x.session; j.exit := 'complete'; j.claimed_at_ms := x.claimed_at_ms;
        j.finished_at_ms := x.finished_at_ms; j.free_at_ms := x.free_at_ms; j.expires_at_ms := x.at_ms;
        j.result := x.results[CASE WHEN cardinality(x.results) = 1 THEN 1 ELSE array_position(x.runs, j.run) END];
    ELSIF NOT EXISTS (SELECT 1 FROM holdfast.ready WHERE queue = j.queue AND key IS NULL AND rank = -j.priority
        AND run_at_ms = j.run_at_ms AND run = j.run) THEN
        SELECT * INTO g FROM holdfast.grip WHERE last_run >= j.run AND j.run = ANY (runs) ORDER BY last_run LIMIT 1;
        IF FOUND THEN
            j.state := 'active'; j.attempts := 1; j.session := g.session; j.grip := g.number; j.claimed_at_ms := g.claimed_at_ms;
        END IF;
    END IF;
    RETURN j;
END $$;

-- The same for a job that is locked: its claim, or its end, is written now.
CREATE OR REPLACE FUNCTION holdfast.write_current_row(j holdfast.job) RETURNS holdfast.job LANGUAGE plpgsql AS $$
DECLARE
    c holdfast.job;
BEGIN
    IF j.state = 'waiting' AND j.attempts = 0 THEN
        c := holdfast.current_row(j);
        IF c.attempts > 0 THEN
            UPDATE holdfast.job SET state = c.state, attempts = c.attempts, session = c.session, grip = c.grip, exit = c.exit,
                claimed_at_ms = c.claimed_at_ms, finished_at_ms = c.finished_at_ms, free_at_ms = c.free_at_ms,
                expires_at_ms = c.expires_at_ms, result = c.result
            WHERE run = c.run;
            RETURN c;
        END IF;
    END IF;
    RETURN j;
END $$;

-- The same for many, of which those that wait are passed over.
CREATE OR REPLACE FUNCTION holdfast.write_current_rows(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    FOR j IN SELECT * FROM holdfast.job t WHERE t.run = ANY (p_runs) AND t.state = 'waiting' AND t.attempts = 0 AND t.key IS NULL
        AND NOT EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = t.queue AND r.key IS NULL AND r.rank = -t.priority
            AND r.run_at_ms = t.run_at_ms AND r.run = t.run OFFSET 0) ORDER BY t.run
    LOOP
        PERFORM holdfast.write_current_row(j);
    END LOOP;
END $$;

-- Whether the row of a run with one of these numbers may say that it waits, though it was claimed or has ended.
CREATE OR REPLACE FUNCTION holdfast.any_deferred(p_first bigint, p_last bigint) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT 1 FROM holdfast.expiry WHERE block BETWEEN holdfast.block_of(p_first) AND holdfast.block_of(p_last))
        OR EXISTS (SELECT 1 FROM holdfast.grip g CROSS JOIN LATERAL unnest(g.runs) AS r(run)
            WHERE g.last_run >= p_first AND r.run BETWEEN p_first AND p_last);
END $$;
