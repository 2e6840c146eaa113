-- Statements that read pages of jobs and counts of them. A page has a source, `c`, of runs that may match, in their order, of which
-- it looks at so many; each row of it says how many there were (`seen`) and which was the last (`below`), also where none matches.

-- :matches
(%(queue)s::text IS NULL OR j.queue = %(queue)s)
    AND (%(states)s::text[] IS NULL OR j.state = ANY (%(states)s::text[]))
    AND (%(task)s::text IS NULL OR j.task = %(task)s)
    AND (%(key)s::text IS NULL OR j.key = %(key)s)
    AND (%(ids)s::text[] IS NULL OR j.id = ANY (%(ids)s::text[]))
    AND (%(prefix)s::text IS NULL OR starts_with(j.id, %(prefix)s))
    AND (%(signature)s::text IS NULL OR j.error_signature IN (%(signature)s, ''))
    AND (%(after)s::bigint IS NULL OR j.enqueued_at_ms >= %(after)s::bigint)
    AND (%(until)s::bigint IS NULL OR j.enqueued_at_ms < %(until)s::bigint)
    AND (%(started_after)s::bigint IS NULL OR j.claimed_at_ms >= %(started_after)s::bigint)
    AND (%(started_before)s::bigint IS NULL OR j.claimed_at_ms < %(started_before)s::bigint)
    AND (%(finished_after)s::bigint IS NULL OR j.finished_at_ms >= %(finished_after)s::bigint)
    AND (%(finished_before)s::bigint IS NULL OR j.finished_at_ms < %(finished_before)s::bigint)
    AND (%(holders)s::text[] IS NULL OR j.state = 'active' AND j.session = ANY (%(holders)s::text[]))
    AND (%(tag)s::text IS NULL OR holdfast.has_tag(j.envelope, %(tag)s, %(encoded_tag)s::bytea))
    AND (%(chain)s::bigint IS NULL OR j.chain = %(chain)s::bigint OR j.run = %(chain)s::bigint)
    AND (%(requeued)s::boolean OR j.requeued_as IS NULL)
    AND (j.expires_at_ms IS NULL OR j.expires_at_ms > holdfast.clock(%(now)s::bigint));

-- :seen
s AS MATERIALIZED (SELECT count(*) AS seen, min(run) AS below FROM c);

-- :found
SELECT s.seen, s.below, f.* FROM s LEFT JOIN (
    SELECT :columns FROM c CROSS JOIN LATERAL (:current WHERE t.run = c.run OFFSET 0) j
    WHERE :matches ORDER BY j.run DESC LIMIT %(limit)s::bigint) f ON true ORDER BY f.run DESC;

-- :matching
SELECT s.seen, s.below, (SELECT count(*)
    FROM c CROSS JOIN LATERAL (:current WHERE t.run = c.run OFFSET 0) j WHERE :matches) AS number FROM s;

-- :walk
c AS MATERIALIZED (SELECT run FROM holdfast.job WHERE run < %(before)s::bigint ORDER BY run DESC LIMIT %(most)s::bigint);

-- The rows between two runs are read in their order, not one by one.
-- :jobs_walk
WITH :walk, :seen
SELECT s.seen, s.below, f.* FROM s LEFT JOIN LATERAL (
    SELECT :columns FROM (:current) j WHERE j.run < %(before)s::bigint AND j.run >= s.below AND :matches
    ORDER BY j.run DESC LIMIT %(limit)s::bigint) f ON true ORDER BY f.run DESC;

-- :count_walk
WITH :walk, :seen
SELECT s.seen, s.below, (SELECT count(*) FROM (:current) j WHERE j.run < %(before)s::bigint AND j.run >= s.below AND :matches) AS number FROM s;

-- :few
c AS MATERIALIZED (SELECT DISTINCT u.run FROM unnest(%(runs)s::bigint[]) AS u(run) WHERE u.run < %(before)s::bigint
    ORDER BY u.run DESC LIMIT %(most)s::bigint);

-- :jobs_few
WITH :few, :seen :found;

-- :count_few
WITH :few, :seen :matching;

-- :signed
c AS MATERIALIZED (SELECT run FROM (
    (SELECT signed_run AS run FROM holdfast.job WHERE error_signature = %(signature)s AND signed_run < %(before)s::bigint
        ORDER BY signed_run DESC LIMIT %(most)s::bigint)
    UNION ALL (SELECT signed_run FROM holdfast.job WHERE error_signature = '' AND signed_run < %(before)s::bigint
        ORDER BY signed_run DESC LIMIT %(most)s::bigint)) u ORDER BY run DESC LIMIT %(most)s::bigint);

-- :jobs_signature
WITH :signed, :seen :found;

-- :count_signature
WITH :signed, :seen :matching;

-- :rare
c AS MATERIALIZED (SELECT run FROM (
    SELECT f.run FROM unnest(%(queues)s::text[]) AS q(name)
        CROSS JOIN LATERAL (SELECT blocked_run AS run FROM holdfast.job WHERE queue = q.name AND blocked_run < %(before)s::bigint
            AND 'blocked' = ANY (%(states)s::text[]) ORDER BY blocked_run DESC LIMIT %(most)s::bigint) f
    UNION ALL SELECT f.run FROM unnest(%(queues)s::text[]) AS q(name)
        CROSS JOIN LATERAL (SELECT cancelled_run AS run FROM holdfast.job WHERE queue = q.name AND cancelled_run < %(before)s::bigint
            AND 'cancelled' = ANY (%(states)s::text[]) ORDER BY cancelled_run DESC LIMIT %(most)s::bigint) f
    UNION ALL SELECT f.run FROM unnest(%(queues)s::text[]) AS q(name)
        CROSS JOIN LATERAL (SELECT failed_run AS run FROM holdfast.job WHERE queue = q.name AND failed_run < %(before)s::bigint
            AND 'failed' = ANY (%(states)s::text[]) ORDER BY failed_run DESC LIMIT %(most)s::bigint) f
    ) u ORDER BY run DESC LIMIT %(most)s::bigint);

-- :jobs_rare
WITH :rare, :seen :found;

-- :count_rare
WITH :rare, :seen :matching;

-- What follows gives all runs that an index has, or one more than are gathered.
-- :runs_ids
SELECT array_agg(j.run) FROM holdfast.job j WHERE j.queue = ANY (%(queues)s::text[])
    -- Two indexes have the ids: of runs that hold theirs, and of those that do not.
    AND (j.held AND j.id = ANY (%(ids)s::text[]) OR NOT j.held AND j.id = ANY (%(ids)s::text[]));

-- :runs_holders
SELECT array_agg(h.run) FROM unnest(%(holders)s::text[]) AS s(id) CROSS JOIN LATERAL holdfast.held_runs(s.id) AS h(run);

-- :runs_chain
SELECT array_agg(run) FROM (
    SELECT run FROM holdfast.job WHERE chain = %(chain)s::bigint UNION ALL SELECT %(chain)s::bigint) u;

-- :runs_prefix
SELECT array_agg(u.run) FROM unnest(%(queues)s::text[]) AS q(name) CROSS JOIN LATERAL (
    (SELECT run FROM holdfast.job WHERE queue = q.name AND held AND id ~>=~ %(prefix)s AND id ~<~ %(behind)s
        LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE queue = q.name AND NOT held AND id ~>=~ %(prefix)s AND id ~<~ %(behind)s
        LIMIT @GATHERED_AT_ONCE + 1)) u;

-- :runs_queue
SELECT array_agg(u.run) FROM (
    (SELECT run FROM holdfast.job WHERE queue = %(queue)s AND held LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE queue = %(queue)s AND NOT held LIMIT @GATHERED_AT_ONCE + 1)) u;

-- :runs_states
SELECT array_agg(u.run) FROM (
    (SELECT run FROM holdfast.ready WHERE 'waiting' = ANY (%(states)s::text[]) AND queue = ANY (%(queues)s::text[])
        LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.suspect WHERE 'waiting' = ANY (%(states)s::text[]) AND queue = ANY (%(queues)s::text[])
        LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE 'scheduled' = ANY (%(states)s::text[]) AND queue = ANY (%(queues)s::text[])
        AND due_at_ms IS NOT NULL LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT r.run FROM holdfast.grip g CROSS JOIN LATERAL unnest(g.runs) AS r(run)
        WHERE 'active' = ANY (%(states)s::text[]) LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT e.run FROM holdfast.expiry x CROSS JOIN LATERAL unnest(x.runs) AS e(run)
        WHERE 'completed' = ANY (%(states)s::text[]) AND x.queue = ANY (%(queues)s::text[]) AND x.completed LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE 'completed' = ANY (%(states)s::text[]) AND chain IS NOT NULL
        LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE 'completed' = ANY (%(states)s::text[]) AND chain_state IS NOT NULL
        LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE queue = ANY (%(queues)s::text[]) AND blocked_run IS NOT NULL
        AND 'blocked' = ANY (%(states)s::text[]) LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE queue = ANY (%(queues)s::text[]) AND cancelled_run IS NOT NULL
        AND 'cancelled' = ANY (%(states)s::text[]) LIMIT @GATHERED_AT_ONCE + 1)
    UNION ALL (SELECT run FROM holdfast.job WHERE queue = ANY (%(queues)s::text[]) AND failed_run IS NOT NULL
        AND 'failed' = ANY (%(states)s::text[]) LIMIT @GATHERED_AT_ONCE + 1)) u;

-- :names
SELECT name FROM holdfast.queue;

-- :counts
SELECT queue, state, count FROM holdfast.queue_counts();
