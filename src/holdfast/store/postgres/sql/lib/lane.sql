-- Keys take turns: there is one lane for each key that has jobs. A change of one needs the lock of the queue's row.

-- The lane of a key is as its jobs, its limits and its bucket say. p_served is the turn it has just had.
CREATE OR REPLACE FUNCTION holdfast.refresh_lane(p_now bigint, p_queue text, p_key text, p_served bigint DEFAULT 0)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_key IS NOT NULL THEN
        PERFORM holdfast.refresh_keys(p_now, p_queue, ARRAY[p_key], ARRAY[p_served]);
    END IF;
END $$;

-- The same for many keys, each of which may be given more than once. p_turns: the turn that each has just had, or 0; NULL: none had one.
-- Lanes that are new stand behind the others, in the order given.
CREATE OR REPLACE FUNCTION holdfast.refresh_keys(p_now bigint, p_queue text, p_keys text[], p_turns bigint[] DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
    v_capacity double precision;
    v_per_ms double precision;
    v_new bigint;
BEGIN
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
    v_capacity := coalesce(q.key_rate_burst, greatest(1, q.key_rate_count));
    v_per_ms := q.key_rate_count / (q.key_rate_per * 1000);
    WITH given AS MATERIALIZED (
        SELECT u.key, coalesce(max(u.turn), 0) AS served, min(u.ord) AS ord
        FROM unnest(p_keys, p_turns) WITH ORDINALITY AS u(key, turn, ord) WHERE u.key IS NOT NULL GROUP BY u.key
    ), seen AS MATERIALIZED (
        SELECT g.key, g.served, g.ord, l.place, l.turn,
            EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = p_queue AND r.key = g.key OFFSET 0) AS waits,
            (SELECT count(*) FROM holdfast.job j WHERE j.queue = p_queue AND j.active_key = g.key) AS running,
            coalesce((SELECT k.concurrency FROM holdfast.key_limit k WHERE k.queue = p_queue AND k.key = g.key),
                holdfast.declared_key_limit(q, g.key), q.key_concurrency) AS most,
            CASE WHEN q.key_rate_count IS NOT NULL THEN CASE WHEN l.tokens IS NULL THEN v_capacity
                ELSE least(v_capacity, l.tokens + greatest(0, p_now - l.tokens_at_ms) * v_per_ms) END
                - CASE WHEN g.served > 0 THEN 1 ELSE 0 END END AS bucket
        FROM given g LEFT JOIN LATERAL (SELECT ctid AS place, turn, tokens, tokens_at_ms FROM holdfast.lane
            WHERE queue = p_queue AND key = g.key OFFSET 0) l ON true
    ), wanted AS MATERIALIZED (
        SELECT key, place, waits OR running > 0 AS busy, bucket,
            waits AND coalesce(running < most, true) AND coalesce(bucket >= 1, true) AS ready,
            CASE WHEN NOT waits AND running = 0 THEN p_now + round((v_capacity - bucket) / v_per_ms)::bigint + 1
                WHEN waits AND coalesce(running < most, true) AND bucket < 1 THEN p_now + ceil((1 - bucket) / v_per_ms)::bigint END AS later,
            CASE WHEN served > 0 AND (waits OR running > 0) THEN served WHEN turn IS NOT NULL THEN turn WHEN waits OR running > 0
                THEN q.turn + count(*) FILTER (WHERE turn IS NULL AND served = 0 AND (waits OR running > 0)) OVER (ORDER BY ord)
                ELSE 0 END AS turn,
            turn IS NULL AND served = 0 AND (waits OR running > 0) AS new,
            NOT waits AND running = 0 AND (bucket IS NULL OR bucket >= v_capacity) AS gone
        FROM seen
    ), dropped AS (
        DELETE FROM holdfast.lane WHERE ctid = ANY (ARRAY(SELECT place FROM wanted WHERE gone AND place IS NOT NULL))
    ), put AS (
        INSERT INTO holdfast.lane AS l (queue, key, turn, ready, ready_at_ms, cooling, tokens, tokens_at_ms)
        SELECT p_queue, key, turn, ready, later, NOT busy, bucket, CASE WHEN bucket IS NOT NULL THEN p_now END
        FROM wanted WHERE NOT gone ORDER BY key
        ON CONFLICT (queue, key) DO UPDATE SET turn = excluded.turn, ready = excluded.ready, ready_at_ms = excluded.ready_at_ms,
            cooling = excluded.cooling, tokens = excluded.tokens, tokens_at_ms = excluded.tokens_at_ms
        WHERE (l.turn, l.ready, l.ready_at_ms, l.cooling, l.tokens, l.tokens_at_ms) IS DISTINCT FROM
            (excluded.turn, excluded.ready, excluded.ready_at_ms, excluded.cooling, excluded.tokens, excluded.tokens_at_ms)
    )
    SELECT count(*) INTO v_new FROM wanted WHERE new;
    IF v_new > 0 THEN
        UPDATE holdfast.queue SET turn = turn + v_new WHERE name = p_queue;
    END IF;
END $$;

-- The concurrency that workers declare for one key, if they do.
CREATE OR REPLACE FUNCTION holdfast.declared_key_limit(q holdfast.queue, p_key text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(q.declared -> 'key_limits' -> p_key) = 'number'
        THEN (q.declared -> 'key_limits' ->> p_key)::numeric::bigint END
$$;

-- Lanes whose token has come are ready, and those whose bucket is full again gone, at most p_limit of each.
CREATE OR REPLACE FUNCTION holdfast.refresh_due_lanes(p_now bigint, p_queue text, p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_cooling boolean;
    v_due text[];
BEGIN
    FOREACH v_cooling IN ARRAY ARRAY[false, true] LOOP
        v_due := ARRAY(SELECT key FROM holdfast.lane
            WHERE queue = p_queue AND cooling = v_cooling AND ready_at_ms <= p_now ORDER BY ready_at_ms LIMIT p_limit);
        IF cardinality(v_due) > 0 THEN
            PERFORM holdfast.refresh_keys(p_now, p_queue, v_due);
        END IF;
    END LOOP;
END $$;

-- Every lane of the queue follows a limit that was changed.
CREATE OR REPLACE FUNCTION holdfast.refresh_lanes(p_now bigint, p_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.refresh_keys(p_now, p_queue, ARRAY(SELECT key FROM holdfast.lane WHERE queue = p_queue));
END $$;
