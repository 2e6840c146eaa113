-- Suspects: jobs that stalled, in an order of their own. They come first, for a session that holds few enough others.

-- In what company a job may be tried again that stalled in this one; NULL: this stall was final. As in core/suspect.py.
CREATE OR REPLACE FUNCTION holdfast.company_after(p_stalls integer, p_limit integer, p_company integer) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE WHEN p_stalls >= p_limit AND p_company <= 1 THEN NULL WHEN p_stalls + 1 >= p_limit THEN 1
        ELSE greatest(1, p_company / 2) END;
END $$;

-- How many jobs a worker has room for; where that is unknown, more than one.
CREATE OR REPLACE FUNCTION holdfast.slots_of(p_session text) RETURNS integer LANGUAGE plpgsql AS $$
BEGIN
    RETURN coalesce((SELECT (convert_from(info, 'UTF8')::jsonb ->> 'slots')::integer FROM holdfast.session
        WHERE id = p_session), 2);
EXCEPTION WHEN data_exception OR invalid_text_representation THEN
    RETURN 2;
END $$;

-- When a job of the key may start by its limits, if nothing else happens; NULL: when another ends.
CREATE OR REPLACE FUNCTION holdfast.key_starts_at(p_now bigint, p_queue text, p_key text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
    l holdfast.lane;
    v_most bigint;
    v_capacity double precision;
    v_per_ms double precision;
    v_bucket double precision;
BEGIN
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
    v_most := coalesce((SELECT concurrency FROM holdfast.key_limit WHERE queue = p_queue AND key = p_key),
        holdfast.declared_key_limit(q, p_key), q.key_concurrency);
    IF v_most <= (SELECT count(*) FROM holdfast.job WHERE queue = p_queue AND active_key = p_key) THEN
        RETURN NULL;
    ELSIF q.key_rate_count IS NULL THEN
        RETURN p_now;
    END IF;
    SELECT * INTO l FROM holdfast.lane WHERE queue = p_queue AND key = p_key;
    v_capacity := coalesce(q.key_rate_burst, greatest(1, q.key_rate_count));
    v_per_ms := q.key_rate_count / (q.key_rate_per * 1000);
    v_bucket := CASE WHEN l.tokens IS NULL THEN v_capacity
        ELSE least(v_capacity, l.tokens + greatest(0, p_now - l.tokens_at_ms) * v_per_ms) END;
    RETURN CASE WHEN v_bucket >= 1 THEN p_now ELSE p_now + ceil((1 - v_bucket) / v_per_ms)::bigint END;
END $$;

-- The suspects that come next are the session's, which holds so many, as far as company and limits allow them. v_room:
-- what they leave room for in all; v_left: one had to be left; v_next: when a key has a token that one waits for.
-- Of those whose key may start none there may be more than are looked at. What came in too late is left, see `next_waiting`.
CREATE OR REPLACE FUNCTION holdfast.claim_suspects(p_now bigint, p_session text, p_queue text, p_room integer,
    p_held integer, OUT v_taken bigint[], OUT v_room integer, OUT v_left boolean, OUT v_next bigint)
LANGUAGE plpgsql AS $$
DECLARE
    s record;
    j holdfast.job;
    v_at bigint;
    v_plain bigint[] := '{}';
    v_turn bigint;
BEGIN
    v_taken := '{}';
    v_room := p_room;
    v_left := false;
    FOR s IN SELECT ctid AS place, run, key, company, age(xmin) < 0 AND NOT holdfast.is_own(xmin) AS late FROM holdfast.suspect WHERE queue = p_queue
        ORDER BY rank, run_at_ms, run LIMIT greatest(@MOST_SUSPECTS, p_room)
    LOOP
        EXIT WHEN cardinality(v_taken) >= v_room;
        v_at := CASE WHEN s.late OR s.key IS NULL THEN p_now ELSE holdfast.key_starts_at(p_now, p_queue, s.key) END;
        IF s.late OR v_at > p_now THEN
            v_next := least(v_next, v_at);
        END IF;
        CONTINUE WHEN s.late OR v_at IS NULL OR v_at > p_now;
        IF p_held + cardinality(v_taken) + 1 > s.company THEN
            v_left := true;
            EXIT;
        END IF;
        SELECT * INTO j FROM holdfast.job WHERE run = s.run AND state = 'waiting' FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN  -- another call has it, or its record is gone and its place goes, too
            DELETE FROM holdfast.suspect WHERE ctid = s.place AND NOT EXISTS (SELECT 1 FROM holdfast.job WHERE run = s.run);
            CONTINUE;
        ELSIF holdfast.refusal(j) IS NOT NULL THEN
            PERFORM holdfast.fail_refused(p_now, j.run);
            CONTINUE;
        END IF;
        DELETE FROM holdfast.suspect WHERE ctid = s.place;
        v_taken := v_taken || j.run;
        v_room := least(v_room, s.company - p_held);
        IF s.key IS NULL THEN
            v_plain := v_plain || j.run;
        ELSE
            PERFORM holdfast.claim_runs(p_now, p_session, ARRAY[j.run]);
            UPDATE holdfast.queue SET turn = turn + 1 WHERE name = p_queue RETURNING turn INTO v_turn;
            PERFORM holdfast.refresh_lane(p_now, p_queue, s.key, v_turn);
        END IF;
    END LOOP;
    IF cardinality(v_plain) > 0 THEN
        PERFORM holdfast.claim_runs(p_now, p_session, v_plain);
    END IF;
END $$;
