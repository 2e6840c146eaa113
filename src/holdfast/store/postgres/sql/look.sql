-- Looking at jobs, queues, workers and the log.

-- :columns
j.*, holdfast.clock(%(now)s::bigint) AS now_ms,
    EXISTS (SELECT 1 FROM holdfast.successor s WHERE s.queue = j.queue AND s.id = j.id AND (j.state = 'active' OR j.chain_state = 'open'))
        AS successor,
    (SELECT ARRAY[f.queue, f.id] FROM holdfast.job f WHERE f.run = j.chain) AS chain_ref;

-- :get
SELECT :columns FROM holdfast.job j
WHERE j.run = coalesce(
    (SELECT run FROM holdfast.job WHERE queue = %(queue)s AND id = %(id)s AND held
        AND (expires_at_ms IS NULL OR expires_at_ms > holdfast.clock(%(now)s::bigint))),
    (SELECT max(run) FROM holdfast.job WHERE queue = %(queue)s AND id = %(id)s AND NOT held
        AND (expires_at_ms IS NULL OR expires_at_ms > holdfast.clock(%(now)s::bigint))));

-- :runs
SELECT t.ord, :columns FROM unnest(%(queues)s::text[], %(ids)s::text[], %(runs)s::bigint[])
    WITH ORDINALITY AS t(queue, id, run, ord) JOIN holdfast.job j ON j.run = coalesce(
        (SELECT o.run FROM holdfast.job o WHERE o.run = t.run AND o.queue = t.queue AND o.id = t.id),
        holdfast.find(t.queue, t.id, t.run));

-- :list
SELECT :columns FROM holdfast.job j
WHERE j.run < %(before)s::bigint
    AND (%(queue)s::text IS NULL OR j.queue = %(queue)s)
    AND (%(states)s::text[] IS NULL OR j.state = ANY (%(states)s::text[]))
    AND (%(task)s::text IS NULL OR j.task = %(task)s)
    AND (%(key)s::text IS NULL OR j.key = %(key)s)
    AND (%(ids)s::text[] IS NULL OR j.id = ANY (%(ids)s::text[]))
    AND (%(after)s::bigint IS NULL OR j.enqueued_at_ms >= %(after)s::bigint)
    AND (%(until)s::bigint IS NULL OR j.enqueued_at_ms < %(until)s::bigint)
    AND (%(chain)s::bigint IS NULL OR j.chain = %(chain)s::bigint OR j.run = %(chain)s::bigint)
    AND (j.expires_at_ms IS NULL OR j.expires_at_ms > holdfast.clock(%(now)s::bigint))
ORDER BY j.run DESC LIMIT %(limit)s::bigint;

-- :chain
SELECT :columns, t.queue AS last_queue, t.id AS last_id, t.run AS last_run, t.position AS last_position,
    t.state AS last_state
FROM holdfast.job j LEFT JOIN holdfast.job t ON t.run = j.tail
WHERE j.run = holdfast.first_of_chain(holdfast.clock(%(now)s::bigint), %(queue)s, %(id)s, %(run)s::bigint);

-- :chains
SELECT :columns, t.queue AS last_queue, t.id AS last_id, t.run AS last_run, t.position AS last_position,
    t.state AS last_state
FROM holdfast.job j LEFT JOIN holdfast.job t ON t.run = j.tail
WHERE j.run < %(before)s::bigint AND j.chain_state IS NOT NULL
    AND (%(queue)s::text IS NULL OR j.queue = %(queue)s)
    AND (%(states)s::text[] IS NULL
        OR CASE WHEN j.chain_state = 'open' THEN t.state ELSE j.chain_state END = ANY (%(states)s::text[]))
    AND (%(task)s::text IS NULL OR j.task = %(task)s)
    AND (%(key)s::text IS NULL OR j.key = %(key)s)
    AND (%(ids)s::text[] IS NULL OR j.id = ANY (%(ids)s::text[]))
    AND (%(after)s::bigint IS NULL OR j.enqueued_at_ms >= %(after)s::bigint)
    AND (%(until)s::bigint IS NULL OR j.enqueued_at_ms < %(until)s::bigint)
    AND (j.expires_at_ms IS NULL OR j.expires_at_ms > holdfast.clock(%(now)s::bigint))
ORDER BY j.run DESC LIMIT %(limit)s::bigint;

-- :blockers
SELECT * FROM holdfast.blocker WHERE run = %(run)s::bigint ORDER BY place;

-- :pending
SELECT EXISTS (
    SELECT 1 FROM holdfast.queue q WHERE q.name = ANY (%(queues)s::text[]) AND NOT q.paused AND (
        EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = q.name AND r.key IS NULL)
        OR EXISTS (SELECT 1 FROM holdfast.ready r WHERE r.queue = q.name AND r.key IS NOT NULL)
        OR EXISTS (SELECT 1 FROM holdfast.job j WHERE j.queue = q.name AND j.due_at_ms IS NOT NULL
            AND (j.attempts > 0 OR j.due_at_ms <= holdfast.clock(%(now)s::bigint)))));

-- :queues
SELECT q.name, (q.declared || q.operator)::text AS settings, q.operator::text AS operator,
    (SELECT json_object_agg(c.state, c.count)::text
     FROM (SELECT state, count(*) FROM holdfast.job WHERE queue = q.name GROUP BY state) c) AS counts,
    (SELECT json_object_agg(k.key, k.concurrency)::text FROM holdfast.key_limit k WHERE k.queue = q.name) AS keys,
    (SELECT count(*) FROM holdfast.serving v JOIN holdfast.session s USING (id)
     WHERE v.queue = q.name AND NOT s.dead AND s.expires_at_ms > holdfast.clock(%(now)s::bigint)) AS workers,
    (SELECT min(ready_at_ms) FROM holdfast.job WHERE queue = q.name AND state = 'waiting') AS oldest
FROM holdfast.queue q ORDER BY q.name;

-- :sessions
SELECT s.info, s.started_at_ms, s.heard_at_ms, s.expires_at_ms,
    (SELECT count(*) FROM holdfast.holding(s.id)) AS active,
    NOT s.dead AND s.expires_at_ms > holdfast.clock(%(now)s::bigint) AS alive
FROM holdfast.session s ORDER BY s.started_at_ms, s.id;

-- :policies
SELECT task, declared::text, operator::text FROM holdfast.policy WHERE queue = %(queue)s;

-- :held
SELECT j.queue, j.id, j.run, j.attempts, j.task, j.priority, j.key, j.run_at_ms, j.enqueued_at_ms, j.failures,
    j.stalls, j.timeouts, j.releases, j.overrides::text, j.headers, j.error, j.checkpoint, j.payload,
    coalesce((j.overrides ->> 'timeout_ms')::bigint, p.timeout_ms), f.queue, f.id, f.run, j.position, j.claimed_at_ms
FROM holdfast.held(%(now)s::bigint, %(session)s) AS h(run) JOIN holdfast.job j USING (run)
    LEFT JOIN holdfast.job f ON f.run = j.chain LEFT JOIN holdfast.policy p ON p.queue = j.queue AND p.task = coalesce(j.task, '')
ORDER BY j.run;

-- A replica's snapshot does not name the transactions that were open, only the oldest: it is read up to there.
-- :events
WITH horizon AS MATERIALIZED (
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_snapshot_xmin(pg_current_snapshot()) ELSE '9223372036854775807'::xid8 END AS xid
), log AS (
    SELECT (SELECT value FROM holdfast.meta WHERE name = 'epoch') AS epoch,
        (SELECT value::bigint FROM holdfast.meta WHERE name = 'trimmed') AS trimmed,
        pg_current_snapshot()::text AS snapshot,
        -- Transactions that were open when the reader passed them, have been committed, and of which nothing is left.
        (SELECT count(*) FROM unnest(%(skipped)s::text[], %(read)s::bigint[]) AS s(xid, seq)
            CROSS JOIN (SELECT value::xid8 AS xid FROM holdfast.meta WHERE name = 'trimmed_xid') AS t
            WHERE s.xid::xid8 <= t.xid AND pg_visible_in_snapshot(s.xid::xid8, pg_current_snapshot())
                AND coalesce(pg_xact_status(s.xid::xid8), 'committed') = 'committed'
                AND (s.xid::xid8 = t.xid OR NOT EXISTS (
                    SELECT 1 FROM holdfast.event e WHERE e.xid = s.xid::xid8 AND e.seq > s.seq))) AS lost,
        (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM holdfast.event_seq) AS newest,
        (SELECT xid::text || '.' || seq FROM holdfast.event WHERE xid < (SELECT xid FROM horizon)
            ORDER BY xid DESC, seq DESC LIMIT 1) AS last
), late AS (
    SELECT e.* FROM unnest(%(skipped)s::text[], %(read)s::bigint[]) AS s(xid, seq)
        JOIN holdfast.event e ON e.xid = s.xid::xid8 AND e.seq > s.seq
    WHERE (%(queue)s::text IS NULL OR e.queue = %(queue)s) AND (%(id)s::text IS NULL OR e.id = %(id)s)
    ORDER BY e.xid, e.seq LIMIT %(limit)s::bigint
), new AS (
    SELECT e.* FROM holdfast.event e WHERE (e.xid, e.seq) > (%(xid)s::xid8, %(seq)s::bigint)
        AND e.xid < (SELECT xid FROM horizon)
        AND (%(queue)s::text IS NULL OR e.queue = %(queue)s) AND (%(id)s::text IS NULL OR e.id = %(id)s)
    ORDER BY e.xid, e.seq LIMIT %(limit)s::bigint
), page AS (
    SELECT * FROM (SELECT * FROM late UNION ALL SELECT * FROM new) found ORDER BY xid, seq LIMIT %(limit)s::bigint
)
SELECT log.epoch, log.trimmed, log.lost, log.snapshot, log.newest, log.last, page.xid::text AS xid_, page.*
FROM log LEFT JOIN page ON true ORDER BY page.xid, page.seq;

-- :schedules
SELECT queue, name, revision, next_at_ms, body FROM holdfast.schedule
WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(schedule)s::text IS NULL OR name = %(schedule)s)
ORDER BY queue COLLATE "C", name COLLATE "C";

-- :due
SELECT t.now, s.queue, s.name, s.revision, s.next_at_ms, s.body,
    (SELECT min(n.next_at_ms) FROM holdfast.schedule n
     WHERE n.queue = ANY (%(queues)s::text[]) AND n.next_at_ms > t.now) AS later
FROM (SELECT holdfast.clock(%(now)s::bigint) AS now OFFSET 0) AS t
LEFT JOIN LATERAL (
    SELECT * FROM holdfast.schedule WHERE queue = ANY (%(queues)s::text[]) AND next_at_ms <= t.now
    ORDER BY next_at_ms LIMIT %(limit)s::integer
) AS s ON true;
