-- What upkeep has to do in many queues, found by one call that only looks: `reap` and `expire` then do it, queue by queue.

-- The queues in which these two have something to do, in how long the next lease of another session is over there, and a text that is another
-- one when policies are. Sessions are few, and queues many: so who vanished is found first, and then which queues it serves.
CREATE OR REPLACE FUNCTION holdfast.chores(p_clock bigint, p_queues text[], p_but text, OUT v_reap text[], OUT v_expire text[],
    OUT v_next_lease bigint, OUT v_policies text) LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(p_clock);
    v_others text[] := ARRAY(SELECT s.id FROM holdfast.session s WHERE s.id <> p_but AND EXISTS (SELECT 1 FROM unnest(p_queues) AS u(name)
        JOIN holdfast.serving v ON v.queue = ANY (ARRAY[u.name]) AND v.id = ANY (ARRAY[s.id]) OFFSET 0));
    v_vanished text[] := ARRAY(SELECT s.id FROM holdfast.session s WHERE s.id = ANY (v_others || p_but)
        AND (s.id <> p_but AND (s.dead OR s.expires_at_ms <= v_now) OR NOT s.dead AND s.expires_at_ms > v_now + 2 * s.lease_ms));
BEGIN
    v_reap := ARRAY(SELECT u.name FROM unnest(p_queues) AS u(name) WHERE cardinality(v_vanished) > 0
        AND EXISTS (SELECT 1 FROM holdfast.serving v WHERE v.queue = u.name AND v.id = ANY (v_vanished) OFFSET 0));
    IF v_reap = '{}' AND EXISTS (SELECT 1 FROM holdfast.corrupt WHERE NOT told ORDER BY number OFFSET 0) THEN
        v_reap := p_queues[1:1];  -- whatever queue it is called for, it tells of all
    END IF;
    v_expire := ARRAY(SELECT u.name FROM unnest(p_queues) AS u(name)
        WHERE EXISTS (SELECT 1 FROM holdfast.expiry e WHERE e.queue = u.name AND e.completed AND e.at_ms <= v_now OFFSET 0)
            OR EXISTS (SELECT 1 FROM holdfast.expiry e WHERE e.queue = u.name AND NOT e.completed AND e.at_ms <= v_now OFFSET 0)
            OR EXISTS (SELECT 1 FROM holdfast.queue q WHERE q.name = u.name AND q.failed_count IS NOT NULL OFFSET 0)
            OR EXISTS (SELECT 1 FROM holdfast.lane l WHERE l.queue = u.name AND l.cooling AND l.ready_at_ms <= v_now
                ORDER BY l.ready_at_ms OFFSET 0)
            OR EXISTS (SELECT 1 FROM holdfast.lane l WHERE l.queue = u.name AND NOT l.cooling AND l.ready_at_ms <= v_now
                ORDER BY l.ready_at_ms OFFSET 0));
    v_next_lease := (SELECT min(s.expires_at_ms) - v_now FROM holdfast.session s WHERE s.id = ANY (v_others) AND NOT s.dead);
    v_policies := (SELECT count(*) || ':' || coalesce(sum(p.xmin::text::bigint), 0) FROM unnest(p_queues) AS u(name) CROSS JOIN LATERAL (
        SELECT xmin FROM holdfast.policy WHERE queue = u.name OFFSET 0) p);
END $$;
