-- Statements that read pages of the jobs of one state in the order of its index. A page has a source, `c`, of places (an instant
-- and a number; both negative where the list goes upwards) with their runs; each row of it says how many there were (`seen`), which
-- was the last (`last_at`, `last_number`), and, where those of a queue may not be all, down to which instant they are (`reach`).

-- :under
(%(at)s::bigint, %(below)s::bigint);

-- :last
s AS MATERIALIZED (SELECT count(*) AS seen, min(at_ms) AS last_at,
    (SELECT number FROM c ORDER BY at_ms, number LIMIT 1) AS last_number, (SELECT at_ms FROM reach) AS reach FROM c);

-- :ordered
SELECT s.*, f.* FROM s LEFT JOIN (
    SELECT :columns, c.at_ms AS place_at, c.number AS place_number
    FROM c CROSS JOIN LATERAL (:current WHERE t.run = c.run OFFSET 0) j
    WHERE (j.state <> 'completed' OR j.expires_at_ms = c.at_ms) AND :matches
    ORDER BY c.at_ms DESC, c.number DESC LIMIT %(limit)s::bigint) f ON true ORDER BY f.place_at DESC, f.place_number DESC;

-- A row of `expiry` may be outdated: a job is listed by the one that has its own instant. Of the rows below the place so many are
-- read, and all of the last instant: a row has one run, or those of a whole turn.
-- :placed_completed
WITH e AS MATERIALIZED (
    SELECT q.name, x.at_ms, x.runs FROM unnest(%(queues)s::text[]) AS q(name) CROSS JOIN LATERAL (
        (SELECT at_ms, runs FROM holdfast.expiry WHERE queue = q.name AND completed AND at_ms = %(at)s::bigint)
        UNION ALL (SELECT at_ms, runs FROM holdfast.expiry WHERE queue = q.name AND completed AND at_ms < %(at)s::bigint
            ORDER BY at_ms DESC FETCH FIRST (%(rows)s::bigint) ROWS WITH TIES)) x
), reach AS MATERIALIZED (
    SELECT max(u.at_ms) AS at_ms FROM (SELECT min(at_ms) AS at_ms FROM e WHERE at_ms < %(at)s::bigint
        GROUP BY name HAVING count(*) >= %(rows)s::bigint) u
), c AS MATERIALIZED (
    SELECT DISTINCT e.at_ms, r.run AS number, r.run FROM e CROSS JOIN LATERAL unnest(e.runs) AS r(run)
    WHERE (e.at_ms, r.run) < :under AND e.at_ms >= coalesce((SELECT at_ms FROM reach), e.at_ms)
    ORDER BY 1 DESC, 2 DESC LIMIT %(most)s::bigint
), :last :ordered;

-- Those that go with their chain, and have no instant. Nothing has them in order: as many jobs are looked at as a page may.
-- :placed_unended
WITH :walk, :seen
SELECT s.seen, s.below, f.* FROM s LEFT JOIN LATERAL (
    SELECT :columns FROM (:current) j WHERE j.run < %(before)s::bigint AND j.run >= s.below AND j.expires_at_ms IS NULL AND :matches
    ORDER BY j.run DESC LIMIT %(limit)s::bigint) f ON true ORDER BY f.run DESC;

-- :any_chain
SELECT EXISTS (SELECT 1 FROM holdfast.job WHERE chain_state IS NOT NULL);

-- :none
reach AS (SELECT NULL::bigint AS at_ms);

-- :placed_scheduled
WITH :none, c AS MATERIALIZED (
    SELECT -f.due_at_ms AS at_ms, -f.run AS number, f.run FROM unnest(%(queues)s::text[]) AS q(name) CROSS JOIN LATERAL (
        SELECT due_at_ms, run FROM holdfast.job
        WHERE queue = q.name AND due_at_ms IS NOT NULL AND (due_at_ms, run) > (-(%(at)s::bigint), -(%(below)s::bigint))
        ORDER BY due_at_ms, run LIMIT %(most)s::bigint) f
    ORDER BY 1 DESC, 2 DESC LIMIT %(most)s::bigint
), :last :ordered;

-- Of those without a key, each rank has an order; suspects are few, and are put in order.
-- :placed_waiting
WITH RECURSIVE ranks (name, rank) AS (
    SELECT q.name, (SELECT rank FROM holdfast.ready WHERE queue = q.name AND key IS NULL ORDER BY rank LIMIT 1)
    FROM unnest(%(queues)s::text[]) AS q(name)
    UNION ALL
    SELECT r.name, (SELECT rank FROM holdfast.ready WHERE queue = r.name AND key IS NULL AND rank > r.rank ORDER BY rank LIMIT 1)
    FROM ranks r WHERE r.rank IS NOT NULL
), :none, c AS MATERIALIZED (
    SELECT u.run_at_ms AS at_ms, u.run AS number, u.run FROM (
        SELECT f.run_at_ms, f.run FROM ranks r CROSS JOIN LATERAL (
            SELECT run_at_ms, run FROM holdfast.ready
            WHERE queue = r.name AND key IS NULL AND rank = r.rank AND (run_at_ms, run) < :under
            ORDER BY run_at_ms DESC, run DESC LIMIT %(most)s::bigint) f
        UNION ALL SELECT f.run_at_ms, f.run FROM unnest(%(queues)s::text[]) AS q(name) CROSS JOIN LATERAL (
            SELECT run_at_ms, run FROM holdfast.ready
            WHERE queue = q.name AND key || '' IS NOT NULL AND (run_at_ms, run) < :under
            ORDER BY run_at_ms DESC, run DESC LIMIT %(most)s::bigint) f
        UNION ALL SELECT f.run_at_ms, f.run FROM unnest(%(queues)s::text[]) AS q(name) CROSS JOIN LATERAL (
            SELECT run_at_ms, run FROM holdfast.suspect WHERE queue = q.name AND (run_at_ms, run) < :under
            ORDER BY run_at_ms DESC, run DESC LIMIT %(most)s::bigint) f) u
    ORDER BY 1 DESC, 2 DESC LIMIT %(most)s::bigint
), :last :ordered;
