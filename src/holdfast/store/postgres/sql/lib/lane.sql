-- Keys take turns: there is one lane for each key that has jobs. A change of one needs the lock of the queue's row.

-- The lane is as its jobs, its limits and its bucket say. p_served is the turn it has just had.
CREATE OR REPLACE FUNCTION holdfast.refresh_lane(p_now bigint, p_queue text, p_key text, p_served bigint DEFAULT 0)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
    l holdfast.lane;
    known boolean;
    waits boolean;
    running bigint;
    most bigint;
    capacity double precision;
    per_ms double precision;
    bucket double precision;
    is_ready boolean;
    later bigint;
BEGIN
    IF p_key IS NULL THEN
        RETURN;
    END IF;
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
    waits := EXISTS (SELECT 1 FROM holdfast.ready WHERE queue = p_queue AND key = p_key);
    SELECT count(*) INTO running FROM holdfast.job WHERE queue = p_queue AND active_key = p_key;
    SELECT * INTO l FROM holdfast.lane WHERE queue = p_queue AND key = p_key;
    known := FOUND;
    IF q.key_rate_count IS NOT NULL THEN
        capacity := coalesce(q.key_rate_burst, greatest(1, q.key_rate_count));
        per_ms := q.key_rate_count / (q.key_rate_per * 1000);
        bucket := CASE WHEN l.tokens IS NULL THEN capacity
            ELSE least(capacity, l.tokens + greatest(0, p_now - l.tokens_at_ms) * per_ms) END;
        IF p_served > 0 THEN
            bucket := bucket - 1;
        END IF;
    END IF;
    IF NOT waits AND running = 0 THEN
        IF bucket IS NULL OR bucket >= capacity THEN
            DELETE FROM holdfast.lane WHERE queue = p_queue AND key = p_key;
        ELSE
            PERFORM holdfast.put_lane(p_queue, p_key, coalesce(l.turn, 0), false,
                p_now + round((capacity - bucket) / per_ms)::bigint + 1, true, bucket, p_now);
        END IF;
        RETURN;
    END IF;
    SELECT concurrency INTO most FROM holdfast.key_limit WHERE queue = p_queue AND key = p_key;
    most := coalesce(most, holdfast.declared_key_limit(q, p_key), q.key_concurrency);
    is_ready := waits AND (most IS NULL OR running < most);
    IF is_ready AND bucket < 1 THEN
        is_ready := false;
        later := p_now + ceil((1 - bucket) / per_ms)::bigint;
    END IF;
    IF p_served = 0 AND NOT known THEN
        UPDATE holdfast.queue SET turn = turn + 1 WHERE name = p_queue RETURNING turn INTO l.turn;
    END IF;
    PERFORM holdfast.put_lane(p_queue, p_key, CASE WHEN p_served > 0 THEN p_served ELSE l.turn END, is_ready, later,
        false, bucket, CASE WHEN bucket IS NULL THEN NULL ELSE p_now END);
END $$;

-- The concurrency that workers declare for one key, if they do.
CREATE OR REPLACE FUNCTION holdfast.declared_key_limit(q holdfast.queue, p_key text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN jsonb_typeof(q.declared -> 'key_limits' -> p_key) = 'number'
        THEN (q.declared -> 'key_limits' ->> p_key)::numeric::bigint END
$$;

CREATE OR REPLACE FUNCTION holdfast.put_lane(p_queue text, p_key text, p_turn bigint, p_ready boolean,
    p_ready_at bigint, p_cooling boolean, p_tokens double precision, p_tokens_at bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.lane AS l (queue, key, turn, ready, ready_at_ms, cooling, tokens, tokens_at_ms)
    VALUES (p_queue, p_key, p_turn, p_ready, p_ready_at, p_cooling, p_tokens, p_tokens_at)
    ON CONFLICT (queue, key) DO UPDATE SET turn = p_turn, ready = p_ready, ready_at_ms = p_ready_at,
        cooling = p_cooling, tokens = p_tokens, tokens_at_ms = p_tokens_at
    WHERE (l.turn, l.ready, l.ready_at_ms, l.cooling, l.tokens, l.tokens_at_ms) IS DISTINCT FROM
        (p_turn, p_ready, p_ready_at, p_cooling, p_tokens, p_tokens_at);
END $$;

-- Lanes whose token has come are ready, and those whose bucket is full again gone, at most p_limit of each.
CREATE OR REPLACE FUNCTION holdfast.refresh_due_lanes(p_now bigint, p_queue text, p_limit integer) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    due text;
    cool boolean;
BEGIN
    FOREACH cool IN ARRAY ARRAY[false, true] LOOP
        FOR due IN SELECT key FROM holdfast.lane
            WHERE queue = p_queue AND cooling = cool AND ready_at_ms <= p_now ORDER BY ready_at_ms LIMIT p_limit
        LOOP
            PERFORM holdfast.refresh_lane(p_now, p_queue, due);
        END LOOP;
    END LOOP;
END $$;

-- Every lane of the queue follows a limit that was changed.
CREATE OR REPLACE FUNCTION holdfast.refresh_lanes(p_now bigint, p_queue text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM holdfast.refresh_lane(p_now, p_queue, key) FROM (SELECT key FROM holdfast.lane WHERE queue = p_queue) l;
END $$;
