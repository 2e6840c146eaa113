-- Queues: the store's time, a queue's row, and what a call needs to know of queues before it begins.

CREATE OR REPLACE FUNCTION holdfast.clock(p_now bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(p_now, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;

-- Whether a row that is seen was written by this very transaction: under a savepoint of a caller whose transaction all of this is,
-- rows have higher numbers than the transaction. No other row is seen whose transaction is in progress.
CREATE OR REPLACE FUNCTION holdfast.is_own(p_xid xid) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
DECLARE
    v_near bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    v_xid bigint := (v_near >> 32 << 32) + p_xid::text::bigint;
BEGIN
    IF v_xid > v_near + 2147483648 THEN  -- numbers of rows begin anew after four billions
        v_xid := v_xid - 4294967296;
    ELSIF v_xid < v_near - 2147483648 THEN
        v_xid := v_xid + 4294967296;
    END IF;
    RETURN pg_xact_status(v_xid::text::xid8) = 'in progress';
END $$;

-- The queue's row, made when it is not there yet.
CREATE OR REPLACE FUNCTION holdfast.ensure_queue(p_queue text) RETURNS holdfast.queue LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
BEGIN
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue;
    IF NOT FOUND THEN
        INSERT INTO holdfast.queue (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
        SELECT * INTO q FROM holdfast.queue WHERE name = p_queue;
    END IF;
    RETURN q;
END $$;

-- The queues whose rows the end of these runs may need, besides those given: where their chains began or go on, where
-- others wait for them, and where their fail handlers take turns by key.
CREATE OR REPLACE FUNCTION holdfast.queues_reached(p_queues text[], p_runs bigint[], p_nexts text[]) RETURNS text[]
LANGUAGE sql STABLE AS $$
    WITH first AS MATERIALIZED (SELECT coalesce(chain, run) AS run FROM holdfast.job WHERE run = ANY (p_runs))
    SELECT array_agg(name) FROM (
        SELECT unnest(p_queues) AS name
        UNION SELECT next::jsonb ->> 'queue' FROM unnest(p_nexts) AS n(next) WHERE next IS NOT NULL
        UNION SELECT j.queue FROM first JOIN holdfast.job j ON j.run = ANY (ARRAY[first.run])
        UNION SELECT p.on_failure_queue FROM holdfast.job j JOIN holdfast.policy p
            ON p.queue = ANY (ARRAY[j.queue]) AND p.task = ANY (ARRAY[coalesce(j.task, '')])
            WHERE j.run = ANY (p_runs) AND j.key IS NOT NULL AND p.on_failure_queue IS NOT NULL
        UNION SELECT j.queue FROM first
            CROSS JOIN LATERAL (SELECT run FROM holdfast.blocker WHERE blocker = first.run AND state IS NULL OFFSET 0) b
            JOIN holdfast.job j ON j.run = ANY (ARRAY[b.run])) found
$$;

-- True when a claim of this queue has more to look at than the order of its jobs.
CREATE OR REPLACE FUNCTION holdfast.has_limits(q holdfast.queue) RETURNS boolean LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN q.concurrency IS NOT NULL OR q.rate_count IS NOT NULL OR q.key_concurrency IS NOT NULL
        OR q.key_rate_count IS NOT NULL OR EXISTS (SELECT 1 FROM holdfast.lane WHERE queue = q.name);
END $$;
