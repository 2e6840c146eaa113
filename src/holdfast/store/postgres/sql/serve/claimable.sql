-- Whether a worker that has just parked would find something.

-- True when a worker that has just parked would find something in the queues that it asked: what was committed while it
-- parked did not wake it. Of the queues that it did not ask it has no room for a job.
-- Transactions from p_before on began when it had parked, and have seen that. v_before is such a number.
CREATE OR REPLACE FUNCTION holdfast.claimable(p_session text, p_queues text[], p_before text, OUT v_found boolean, OUT v_before text)
LANGUAGE plpgsql STABLE /* planner */ AS $$
BEGIN
    v_before := coalesce(p_before, pg_snapshot_xmax(pg_current_snapshot())::text);
    v_found := EXISTS (
        SELECT 1 FROM holdfast.session s JOIN holdfast.serving v ON v.id = ANY (ARRAY[s.id])
            JOIN holdfast.queue q ON q.name = ANY (ARRAY[v.queue])
        WHERE s.id = p_session AND v.queue = ANY (p_queues) AND s.parked IS NOT NULL AND NOT s.dead AND NOT q.paused AND q.rate_count IS NULL
            AND (EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = v.queue AND r.key IS NULL
                    AND (p_before IS NULL OR age(r.xmin) > age(p_before::xid8::xid)) OFFSET 0)
                OR EXISTS (SELECT 1 FROM holdfast.lane l WHERE l.queue = v.queue AND l.ready
                    AND (p_before IS NULL OR age(l.xmin) > age(p_before::xid8::xid)) ORDER BY l.turn OFFSET 0))
            AND (q.concurrency IS NULL OR q.concurrency > holdfast.active_count(v.queue)));
END $$;
