-- The order in which waiting jobs are claimed.

-- Put those of the runs that wait into the order, or among the suspects.
CREATE OR REPLACE FUNCTION holdfast.add_to_order(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_count integer;
BEGIN
    INSERT INTO holdfast.ready (queue, key, rank, run_at_ms, run)
    SELECT queue, key, -priority, run_at_ms, run FROM holdfast.job
    WHERE run = ANY (p_runs) AND state = 'waiting' AND company IS NULL ORDER BY run;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count < cardinality(p_runs) THEN
        INSERT INTO holdfast.suspect (queue, key, rank, run_at_ms, run, company)
        SELECT queue, key, -priority, run_at_ms, run, company FROM holdfast.job
        WHERE run = ANY (p_runs) AND state = 'waiting' AND company IS NOT NULL ORDER BY run;
    END IF;
    PERFORM holdfast.remove_fronts(p_runs);
END $$;

-- Take a run that waited, as the row says, out of the order.
CREATE OR REPLACE FUNCTION holdfast.remove_from_order(j holdfast.job) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF j.state <> 'waiting' THEN
        RETURN;
    END IF;
    IF j.company IS NOT NULL THEN
        DELETE FROM holdfast.suspect WHERE queue = j.queue AND rank = -j.priority AND run_at_ms = j.run_at_ms
            AND run = j.run;
        IF FOUND THEN
            RETURN;  -- or else its row was damaged, and its place is with the others
        END IF;
    END IF;
    IF j.key IS NULL THEN
        DELETE FROM holdfast.ready WHERE queue = j.queue AND key IS NULL AND rank = -j.priority
            AND run_at_ms = j.run_at_ms AND run = j.run;
    ELSE
        DELETE FROM holdfast.ready WHERE queue = j.queue AND key = j.key AND rank = -j.priority
            AND run_at_ms = j.run_at_ms AND run = j.run;
    END IF;
END $$;

-- No claim begins behind one of these runs.
CREATE OR REPLACE FUNCTION holdfast.remove_fronts(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM holdfast.front) THEN
        DELETE FROM holdfast.front f WHERE EXISTS (SELECT 1 FROM holdfast.job j WHERE j.run = ANY (p_runs)
            AND j.queue = f.queue AND (-j.priority, j.run_at_ms, j.run) < (f.rank, f.run_at_ms, f.run));
    END IF;
END $$;
