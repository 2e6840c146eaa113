-- Claims of a queue whose keys take turns.

-- The key that was served least recently comes first; jobs without a key are one group with its own turn. v_late: a lane has
-- nothing but what came in too late.
CREATE OR REPLACE FUNCTION holdfast.claim_by_lane(p_now bigint, p_session text, p_queue text, p_room integer,
    OUT v_taken bigint[], OUT v_refused integer, OUT v_late boolean) LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
    v_keys text[];
    v_keyless integer;
    v_limited boolean;
    v_pass record;
    j holdfast.job;
BEGIN
    v_taken := '{}';
    v_refused := 0;
    v_late := false;
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
    v_limited := q.key_concurrency IS NOT NULL OR q.key_rate_count IS NOT NULL OR q.declared ? 'key_limits'
        OR EXISTS (SELECT 1 FROM holdfast.key_limit WHERE queue = p_queue);
    LOOP  -- each time every lane that is ready has a turn; or several turns, where nothing but other lanes may come between them
        v_keys := ARRAY(SELECT key FROM (
                (SELECT key, turn FROM holdfast.lane WHERE queue = p_queue AND ready
                 ORDER BY turn LIMIT p_room - cardinality(v_taken))
                UNION ALL
                SELECT NULL, q.keyless_turn WHERE EXISTS (SELECT 1 FROM holdfast.ready
                    WHERE queue = p_queue AND key IS NULL)) ready
            ORDER BY turn, key NULLS LAST LIMIT p_room - cardinality(v_taken));
        EXIT WHEN cardinality(v_keys) = 0;
        v_pass := holdfast.first_of_lanes(p_queue, v_keys, CASE WHEN v_limited OR array_position(v_keys, NULL) IS NOT NULL THEN 1
            ELSE (p_room - cardinality(v_taken)) / cardinality(v_keys) END);
        IF array_position(v_keys, NULL) IS NOT NULL THEN
            j := holdfast.first_keyless(p_queue);
            IF j.run IS NOT NULL AND holdfast.refusal(j) IS NOT NULL THEN
                v_pass.v_bad := v_pass.v_bad || j.run;
            ELSIF j.run IS NOT NULL THEN
                PERFORM holdfast.remove_from_order(j);
                v_keyless := (SELECT count(*) FROM unnest(v_pass.v_ords) AS u(ord) WHERE u.ord < array_position(v_keys, NULL));
                v_pass.v_runs := v_pass.v_runs[:v_keyless] || j.run || v_pass.v_runs[v_keyless + 1:];
                v_pass.v_keys := v_pass.v_keys[:v_keyless] || NULL::text || v_pass.v_keys[v_keyless + 1:];
                q.keyless_turn := q.turn + v_keyless + 1;
            END IF;
        END IF;
        IF cardinality(v_pass.v_runs) > 0 THEN
            PERFORM holdfast.claim_runs(p_now, p_session, v_pass.v_runs);
            v_taken := v_taken || v_pass.v_runs;
        END IF;
        IF cardinality(v_pass.v_bad) > 0 THEN
            v_refused := v_refused + cardinality(v_pass.v_bad);
            PERFORM holdfast.fail_refused(p_now, run) FROM unnest(v_pass.v_bad) AS b(run);
        END IF;
        PERFORM holdfast.refresh_keys(p_now, p_queue, v_pass.v_keys || v_pass.v_empty,
            ARRAY(SELECT q.turn + n FROM generate_series(1, cardinality(v_pass.v_keys)) AS n));
        q.turn := q.turn + cardinality(v_pass.v_runs);
        v_late := v_late OR v_pass.v_late;
        EXIT WHEN cardinality(v_pass.v_runs) + cardinality(v_pass.v_bad) = 0 OR cardinality(v_taken) >= p_room;
    END LOOP;
    UPDATE holdfast.queue SET turn = greatest(turn, q.turn), keyless_turn = q.keyless_turn WHERE name = p_queue;
END $$;

-- Of each of these keys the p_each jobs that come first, locked and out of the order, as the keys take turns: v_runs, v_keys and v_ords,
-- the place of its key among those given. v_bad: those that may not start, in the order still. v_empty: keys of which none was found;
-- v_late: what came in too late is left, see `next_waiting`.
CREATE OR REPLACE FUNCTION holdfast.first_of_lanes(p_queue text, p_keys text[], p_each integer, OUT v_runs bigint[], OUT v_keys text[],
    OUT v_ords bigint[], OUT v_bad bigint[], OUT v_empty text[], OUT v_late boolean) LANGUAGE plpgsql AS $$
DECLARE
    v_places tid[];
BEGIN
    SELECT coalesce(array_agg(n.run) FILTER (WHERE n.refusal IS NULL AND n.run IS NOT NULL), '{}'),
        coalesce(array_agg(n.key) FILTER (WHERE n.refusal IS NULL AND n.run IS NOT NULL), '{}'),
        coalesce(array_agg(n.ord) FILTER (WHERE n.refusal IS NULL AND n.run IS NOT NULL), '{}'),
        array_agg(n.place) FILTER (WHERE n.refusal IS NULL AND n.run IS NOT NULL),
        coalesce(array_agg(n.run) FILTER (WHERE n.refusal IS NOT NULL), '{}'),
        coalesce(array_agg(n.key) FILTER (WHERE n.run IS NULL), '{}')
    INTO v_runs, v_keys, v_ords, v_places, v_bad, v_empty FROM (
        SELECT k.key, k.ord, f.* FROM unnest(p_keys) WITH ORDINALITY AS k(key, ord) LEFT JOIN LATERAL (
            SELECT r.*, t.refusal FROM (SELECT ctid AS place, rank, run_at_ms, run FROM holdfast.ready
                WHERE queue = p_queue AND key = k.key AND (age(xmin) >= 0 OR holdfast.is_own(xmin)) ORDER BY rank, run_at_ms, run OFFSET 0) r
            CROSS JOIN LATERAL (SELECT CASE WHEN holdfast.starts_freely(j) THEN NULL ELSE holdfast.refusal(j) END AS refusal
                FROM holdfast.job j WHERE j.run = r.run AND j.state = 'waiting' FOR UPDATE SKIP LOCKED) t LIMIT p_each) f ON true
        WHERE k.key IS NOT NULL
        ORDER BY row_number() OVER (PARTITION BY k.ord ORDER BY f.rank, f.run_at_ms, f.run), k.ord) n;
    v_late := false;
    IF v_places IS NOT NULL THEN
        DELETE FROM holdfast.ready WHERE ctid = ANY (v_places);
    END IF;
    IF cardinality(v_empty) > 0 THEN  -- records that are gone leave no place
        DELETE FROM holdfast.ready WHERE ctid = ANY (ARRAY(SELECT r.place FROM unnest(v_empty) AS k(key)
            CROSS JOIN LATERAL (SELECT ctid AS place, run FROM holdfast.ready WHERE queue = p_queue AND key = k.key OFFSET 0) r
            WHERE NOT EXISTS (SELECT 1 FROM holdfast.job t WHERE t.run = r.run OFFSET 0)));
        v_late := EXISTS (SELECT 1 FROM unnest(v_empty) AS k(key) CROSS JOIN LATERAL (SELECT 1 FROM holdfast.ready r
            WHERE r.queue = p_queue AND r.key = k.key AND age(r.xmin) < 0 AND NOT holdfast.is_own(r.xmin) OFFSET 0) l);
    END IF;
END $$;

-- The job without a key that comes first; locked. What came in too late is left, see `next_waiting`.
CREATE OR REPLACE FUNCTION holdfast.first_keyless(p_queue text) RETURNS holdfast.job LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    LOOP
        SELECT t.* INTO j FROM (SELECT run FROM holdfast.ready WHERE queue = p_queue AND key IS NULL AND (age(xmin) >= 0 OR holdfast.is_own(xmin))
            ORDER BY rank, run_at_ms, run OFFSET 0) r
        CROSS JOIN LATERAL (SELECT * FROM holdfast.job
            WHERE run = r.run AND state = 'waiting' FOR UPDATE SKIP LOCKED) t LIMIT 1;
        j := holdfast.write_current_row(j);
        EXIT WHEN j.run IS NULL OR j.state = 'waiting';  -- else another call had claimed it, and left its row alone
    END LOOP;
    RETURN j;
END $$;
