-- Fast path of a turn of many queues: those that have nothing to give are not asked. A turn that asks each of its queues is the slow path,
-- which a worker of few queues takes. test_postgres_fast_paths.py compares the two.

-- Those of the queues that a claim may bring something from now, in their order; and when the next job of the others is due.
CREATE OR REPLACE FUNCTION holdfast.giving(p_now bigint, p_queues text[], OUT v_queues text[], OUT v_next bigint) LANGUAGE plpgsql AS $$
BEGIN
    SELECT coalesce(array_agg(g.name) FILTER (WHERE g.gives), '{}'), min(g.due) FILTER (WHERE NOT g.gives) INTO v_queues, v_next FROM (
        SELECT d.name, d.due, coalesce(d.due <= p_now, false)
            OR EXISTS (SELECT 1 FROM holdfast.front f WHERE f.queue = d.name OFFSET 0)  -- what is dead in front of its jobs is not walked over
            OR EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = d.name AND r.key IS NULL ORDER BY r.rank, r.run_at_ms, r.run OFFSET 0)
            OR EXISTS (SELECT 1 FROM holdfast.lane l WHERE l.queue = d.name OFFSET 0)
            OR EXISTS (SELECT 1 FROM holdfast.suspect s WHERE s.queue = d.name OFFSET 0) AS gives
        FROM (SELECT u.name, (SELECT j.due_at_ms FROM holdfast.job j WHERE j.queue = u.name AND j.due_at_ms IS NOT NULL
            ORDER BY j.due_at_ms LIMIT 1) AS due FROM unnest(p_queues) AS u(name) OFFSET 0) d OFFSET 0) g;
END $$;
