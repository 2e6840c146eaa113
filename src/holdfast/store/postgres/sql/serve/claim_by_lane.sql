-- Claims of a queue whose keys take turns, job by job.

-- The key that was served least recently comes first; jobs without a key are one group with its own turn. v_late: a lane has
-- nothing but what came in too late.
CREATE OR REPLACE FUNCTION holdfast.claim_by_lane(p_now bigint, p_session text, p_queue text, p_room integer,
    OUT v_taken bigint[], OUT v_refused integer, OUT v_late boolean) LANGUAGE plpgsql AS $$
DECLARE
    q holdfast.queue;
    l record;
    j holdfast.job;
    v_any boolean := true;
BEGIN
    v_taken := '{}';
    v_refused := 0;
    v_late := false;
    SELECT * INTO q FROM holdfast.queue WHERE name = p_queue FOR UPDATE NOWAIT;
    WHILE v_any AND cardinality(v_taken) < p_room LOOP
        v_any := false;
        FOR l IN
            SELECT key, turn FROM (
                (SELECT key, turn FROM holdfast.lane WHERE queue = p_queue AND ready
                 ORDER BY turn LIMIT p_room - cardinality(v_taken))
                UNION ALL
                SELECT NULL, q.keyless_turn WHERE EXISTS (SELECT 1 FROM holdfast.ready
                    WHERE queue = p_queue AND key IS NULL)) ready
            ORDER BY turn, key NULLS LAST LIMIT p_room - cardinality(v_taken)
        LOOP
            j := holdfast.first_waiting(p_queue, l.key);
            IF j.run IS NULL THEN
                v_late := v_late OR EXISTS (SELECT 1 FROM holdfast.ready r
                    WHERE r.queue = p_queue AND r.key = l.key AND age(r.xmin) < 0 AND NOT holdfast.is_own(r.xmin));
                PERFORM holdfast.refresh_lane(p_now, p_queue, l.key);
                CONTINUE;
            END IF;
            v_any := true;
            IF holdfast.refusal(j) IS NOT NULL THEN
                v_refused := v_refused + 1;
                PERFORM holdfast.fail_refused(p_now, j.run);
                CONTINUE;
            END IF;
            q.turn := q.turn + 1;
            PERFORM holdfast.remove_from_order(j);
            PERFORM holdfast.claim_runs(p_now, p_session, ARRAY[j.run]);
            v_taken := v_taken || j.run;
            IF l.key IS NULL THEN
                q.keyless_turn := q.turn;
            ELSE
                PERFORM holdfast.refresh_lane(p_now, p_queue, l.key, q.turn);
            END IF;
        END LOOP;
    END LOOP;
    UPDATE holdfast.queue SET turn = greatest(turn, q.turn), keyless_turn = q.keyless_turn WHERE name = p_queue;
END $$;

-- The job of a lane, or of those without a key, that comes first; locked. What came in too late is left, see `next_waiting`.
CREATE OR REPLACE FUNCTION holdfast.first_waiting(p_queue text, p_key text) RETURNS holdfast.job LANGUAGE plpgsql AS $$
DECLARE
    j holdfast.job;
BEGIN
    IF p_key IS NULL THEN
        LOOP
            SELECT t.* INTO j FROM (SELECT run FROM holdfast.ready WHERE queue = p_queue AND key IS NULL AND (age(xmin) >= 0 OR holdfast.is_own(xmin))
                ORDER BY rank, run_at_ms, run OFFSET 0) r
            CROSS JOIN LATERAL (SELECT * FROM holdfast.job
                WHERE run = r.run AND state = 'waiting' FOR UPDATE SKIP LOCKED) t LIMIT 1;
            j := holdfast.write_claim(j);
            EXIT WHEN j.run IS NULL OR j.state = 'waiting';  -- else another call had claimed it, and left its row alone
        END LOOP;
    ELSE
        SELECT t.* INTO j FROM (SELECT run FROM holdfast.ready WHERE queue = p_queue AND key = p_key AND (age(xmin) >= 0 OR holdfast.is_own(xmin))
            ORDER BY rank, run_at_ms, run OFFSET 0) r
        CROSS JOIN LATERAL (SELECT * FROM holdfast.job
            WHERE run = r.run AND state = 'waiting' FOR UPDATE SKIP LOCKED) t LIMIT 1;
        IF j.run IS NULL THEN  -- records that are gone leave no place
            DELETE FROM holdfast.ready r WHERE r.queue = p_queue AND r.key = p_key
                AND NOT EXISTS (SELECT 1 FROM holdfast.job t WHERE t.run = r.run OFFSET 0);
        END IF;
    END IF;
    RETURN j;
END $$;
