-- Locks. They are taken in one order: request, queue rows by name, pulse, own session, job rows by run, then the first jobs
-- of their chains by run, then the jobs that wait for them by run (`lock_rank`). Any other lock that comes later is skipped when
-- it is taken, or tried without waiting.

-- Lock these queues, and make those that are not there: no other call changes a lane or a limit of them until this transaction
-- is over.
CREATE OR REPLACE FUNCTION holdfast.lock_queues(p_queues text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.queue (name)
    SELECT DISTINCT name FROM unnest(p_queues) AS u(name)
    WHERE NOT EXISTS (SELECT 1 FROM holdfast.queue q WHERE q.name = u.name OFFSET 0) ORDER BY name ON CONFLICT DO NOTHING;
    PERFORM 1 FROM holdfast.queue WHERE name = ANY (p_queues) ORDER BY name FOR UPDATE;
END $$;

-- The order in which job rows are locked together: a job that ends, then the first of its chain, then the jobs that wait for it.
CREATE OR REPLACE FUNCTION holdfast.lock_rank(p_state text, p_chain_state text) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN p_state = 'blocked' THEN 2 WHEN p_chain_state IS NOT NULL THEN 1 ELSE 0 END
$$;

-- Lock these runs, of whatever rank: none is waited for while others are held, unless that takes
-- too long. For while one is waited for, another may go on, or be unblocked, and has another rank then.
CREATE OR REPLACE FUNCTION holdfast.lock_jobs(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_free bigint[];
    v_busy bigint;
BEGIN
    FOR i IN 1..100 LOOP
        EXIT WHEN cardinality(p_runs) < 2;
        BEGIN
            v_free := ARRAY(SELECT run FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run FOR UPDATE SKIP LOCKED);
            v_busy := (SELECT run FROM holdfast.job WHERE run = ANY (p_runs) AND run <> ALL (v_free) ORDER BY run LIMIT 1);
            IF v_busy IS NULL THEN
                RETURN;
            END IF;
            RAISE SQLSTATE 'HF000';  -- which lets go of all
        EXCEPTION WHEN SQLSTATE 'HF000' THEN
        END;
        BEGIN
            PERFORM 1 FROM holdfast.job WHERE run = v_busy FOR UPDATE;
            RAISE SQLSTATE 'HF000';
        EXCEPTION WHEN SQLSTATE 'HF000' THEN
        END;
    END LOOP;
    PERFORM 1 FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY holdfast.lock_rank(state, chain_state), run FOR UPDATE;
END $$;

-- These runs, and successors, are locked, so that they cannot end unheard: none is waited for while others are held, unless
-- that takes too long.
CREATE OR REPLACE FUNCTION holdfast.share_jobs(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_tries integer := 0;
BEGIN
    LOOP
        BEGIN
            PERFORM 1 FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run FOR SHARE NOWAIT;
            PERFORM 1 FROM holdfast.successor WHERE run = ANY (p_runs) ORDER BY run FOR SHARE NOWAIT;
            RETURN;
        EXCEPTION WHEN lock_not_available THEN
            v_tries := v_tries + 1;
            EXIT WHEN v_tries > 200;
            PERFORM pg_sleep(random() * 0.01);
        END;
    END LOOP;
    PERFORM 1 FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run FOR SHARE;
    PERFORM 1 FROM holdfast.successor WHERE run = ANY (p_runs) ORDER BY run FOR SHARE;
END $$;

-- Lock the jobs that wait for these chains, in the common order.
CREATE OR REPLACE FUNCTION holdfast.lock_waiters(p_firsts bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM holdfast.job
    WHERE run = ANY (ARRAY(SELECT run FROM holdfast.blocker WHERE blocker = ANY (p_firsts) AND state IS NULL))
    ORDER BY run FOR UPDATE;
END $$;

-- The same for all chains of these runs, which are locked, at once, not chain by chain; their first jobs are locked before, so
-- that no other job begins to wait for one.
CREATE OR REPLACE FUNCTION holdfast.lock_chains(p_runs bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_firsts bigint[] := ARRAY(SELECT chain FROM holdfast.job WHERE run = ANY (p_runs) AND position > 0);
BEGIN
    IF cardinality(v_firsts) > 0 THEN
        PERFORM 1 FROM holdfast.job WHERE run = ANY (v_firsts) ORDER BY run FOR UPDATE;
    END IF;
    IF EXISTS (SELECT 1 FROM holdfast.blocker WHERE state IS NULL) THEN
        PERFORM holdfast.lock_waiters(v_firsts || p_runs);
    END IF;
END $$;

-- Every job of these chains is locked, each chain from its end, as when one ends.
CREATE OR REPLACE FUNCTION holdfast.lock_whole_chains(p_firsts bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM holdfast.job WHERE run = ANY (holdfast.jobs_of_chains(p_firsts)) ORDER BY coalesce(chain, run), run DESC FOR UPDATE;
END $$;
