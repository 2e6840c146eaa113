-- Statements that read chains, queues, workers, the log and schedules; each has a name, and may stand in another (`:columns`).

-- :columns
j.*, holdfast.clock(%(now)s::bigint) AS now_ms,
    EXISTS (SELECT 1 FROM holdfast.successor s WHERE s.queue = j.queue AND s.id = j.id
        AND (j.state = 'active' OR j.chain_state = 'open') OFFSET 0) AS successor,
    (SELECT ARRAY[f.queue, f.id] FROM holdfast.job f WHERE f.run = j.chain) AS chain_ref;

-- Jobs as they are, also those whose claim or end is not written in their row (`current_row`).
-- :current
SELECT t.run, t.queue, t.id, CASE WHEN g.number IS NOT NULL THEN 'active' WHEN x.block IS NOT NULL THEN 'completed' ELSE t.state END AS state,
    t.held, t.cancel, t.task, t.priority, t.key, t.run_at_ms, t.ready_at_ms, t.enqueued_at_ms,
    coalesce(t.claimed_at_ms, g.claimed_at_ms, x.claimed_at_ms) AS claimed_at_ms, coalesce(t.finished_at_ms, x.finished_at_ms) AS finished_at_ms,
    coalesce(t.free_at_ms, x.free_at_ms) AS free_at_ms, coalesce(t.expires_at_ms, x.at_ms) AS expires_at_ms,
    CASE WHEN g.number IS NULL AND x.block IS NULL THEN t.attempts ELSE 1 END AS attempts, t.failures, t.stalls, t.timeouts, t.releases,
    coalesce(t.session, g.session, x.session) AS session, coalesce(t.grip, g.number) AS grip,
    CASE WHEN x.block IS NULL THEN t.exit ELSE 'complete' END AS exit, t.last_session, t.last_exit,
    t.absorbed_to, t.requeued_as, t.result_ttl_ms, t.dedup_key, t.dedup_until_ms, t.progressed_at_ms, t.progress,
    t.checkpoint, t.overrides, t.envelope, t.error, CASE WHEN x.block IS NULL THEN t.result ELSE
        x.results[CASE WHEN cardinality(x.results) = 1 THEN 1 ELSE array_position(x.runs, t.run) END] END AS result,
    t.payload, t.due_at_ms, t.active_key, t.failed_run, t.chain,
    t.position, t.chain_state, t.ended_at_ms, t.tail, t.blockers, t.on_blocker_failed, t.odd, t.company, t.snoozes, t.spared,
    t.error_signature, t.blocked_run, t.cancelled_run, t.signed_run
FROM holdfast.job t LEFT JOIN LATERAL (SELECT e.block, e.session, e.claimed_at_ms, e.finished_at_ms, e.free_at_ms, e.at_ms, e.runs, e.results
        FROM holdfast.expiry e WHERE t.state = 'waiting' AND t.attempts = 0 AND t.key IS NULL
            AND e.block = holdfast.block_of(t.run) AND t.run = ANY (e.runs) LIMIT 1) x ON true
    LEFT JOIN LATERAL (SELECT h.number, h.session, h.claimed_at_ms FROM holdfast.grip h
        WHERE x.block IS NULL AND t.state = 'waiting' AND t.attempts = 0 AND t.key IS NULL AND NOT EXISTS (SELECT 1 FROM holdfast.ready
                WHERE queue = t.queue AND key IS NULL AND rank = -t.priority AND run_at_ms = t.run_at_ms AND run = t.run)
            AND h.last_run >= t.run AND t.run = ANY (h.runs) LIMIT 1) g ON true;

-- :job
SELECT (s.j).*, s.now_ms, s.successor, s.chain_ref FROM holdfast.job_by_id(%(now)s::bigint, %(queue)s, %(id)s) s;

-- :runs
SELECT s.ord, (s.j).*, s.now_ms, s.successor, s.chain_ref
FROM holdfast.jobs_by_run(%(now)s::bigint, %(queues)s::text[], %(ids)s::text[], %(runs)s::bigint[]) s;

-- :look_up
SELECT (s.j).*, s.now_ms, s.successor, s.chain_ref
FROM unnest(%(ids)s::text[]) WITH ORDINALITY AS u(id, place)
    CROSS JOIN (SELECT name FROM holdfast.queue WHERE %(queue)s::text IS NULL OR name = %(queue)s) q
    CROSS JOIN LATERAL holdfast.job_by_id(%(now)s::bigint, q.name, u.id) s
ORDER BY u.place, q.name COLLATE "C";

-- :chain
SELECT :columns, t.queue AS last_queue, t.id AS last_id, t.run AS last_run, t.position AS last_position,
    t.state AS last_state
FROM (:current) j LEFT JOIN holdfast.job t ON t.run = ANY (ARRAY[j.tail])
WHERE j.run = holdfast.chain_by_job(%(now)s::bigint, %(queue)s, %(id)s, %(run)s::bigint);

-- :chains
SELECT :columns, t.queue AS last_queue, t.id AS last_id, t.run AS last_run, t.position AS last_position,
    t.state AS last_state
FROM (:current) j LEFT JOIN holdfast.job t ON t.run = ANY (ARRAY[j.tail])
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

-- :queues
SELECT q.name, (q.declared || q.operator)::text AS settings, q.operator::text AS operator,
    c.counts,
    (SELECT json_object_agg(k.key, k.concurrency)::text FROM holdfast.key_limit k WHERE k.queue = q.name) AS keys,
    (SELECT count(*) FROM holdfast.serving v JOIN holdfast.session s USING (id)
     WHERE v.queue = q.name AND NOT s.dead AND s.expires_at_ms > holdfast.clock(%(now)s::bigint)) AS workers,
    holdfast.oldest_waiting(q.name) AS oldest
FROM holdfast.queue q LEFT JOIN (SELECT queue, json_object_agg(state, count)::text AS counts FROM holdfast.queue_counts() GROUP BY queue) c
    ON c.queue = q.name
ORDER BY q.name;

-- :sessions
SELECT s.id, s.info, s.started_at_ms, s.heard_at_ms, s.expires_at_ms,
    (SELECT count(*) FROM holdfast.held_runs(s.id)) AS active,
    NOT s.dead AND s.expires_at_ms > holdfast.clock(%(now)s::bigint) AS alive, s.memory_bytes, s.command
FROM holdfast.session s ORDER BY s.started_at_ms, s.id;

-- :policies
SELECT task, version, declared::text, operator::text FROM holdfast.policy WHERE queue = %(queue)s;

-- :layers
SELECT version, declared::text, operator::text FROM holdfast.queue WHERE name = %(queue)s;

-- Of a position: `number`, and late transactions from `first` to `last`, each read up to its own number.
-- Transactions that were late, have been committed, and of which an event was trimmed, or may have been.
-- :lost
(SELECT count(*) FROM unnest(%(first)s::text[], %(last)s::text[], %(read)s::bigint[]) AS o(first, last, read)
    CROSS JOIN (SELECT max(value) FILTER (WHERE name = 'trimmed_xid') AS xid,
            max(value) FILTER (WHERE name = 'trimmed') AS number FROM holdfast.meta) AS t
    WHERE o.read < t.number::bigint AND o.first::xid8 <= t.xid::xid8
        AND (o.first <> o.last OR pg_visible_in_snapshot(o.first::xid8, pg_current_snapshot())
            AND coalesce(pg_xact_status(o.first::xid8), 'committed') = 'committed'
            -- What it had below this would have gone with the rest, had it been committed then.
            AND NOT EXISTS (SELECT 1 FROM holdfast.event e WHERE e.seq > o.read AND e.seq <= t.number::bigint
                AND e.xid = o.first::xid8)));

-- The log as one snapshot sees it. `next`: no transaction had this number yet. Those from the snapshot's end on may have begun.
-- :log
(SELECT value FROM holdfast.meta WHERE name = 'epoch') AS epoch,
    (SELECT value::bigint FROM holdfast.meta WHERE name = 'trimmed') AS trimmed,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM holdfast.event_seq) AS newest,
    (SELECT seq FROM holdfast.event ORDER BY seq DESC LIMIT 1) AS last,
    pg_current_snapshot()::text AS snapshot, pg_is_in_recovery() AS replica,
    (SELECT x.number::text::bigint + greatest(0, age(x.number::xid))
     FROM (SELECT pg_snapshot_xmax(pg_current_snapshot()) AS number) x) AS next;

-- A replica's snapshot does not name the transactions that were open, only the oldest. Reading stops in front of the first
-- event of one that began later: what that one depends on may be of one that is open.
-- :stop
CASE WHEN pg_is_in_recovery() THEN least(
    (SELECT min(n.seq) FROM unnest(%(first)s::text[], %(last)s::text[], %(read)s::bigint[]) AS o(first, last, read)
        CROSS JOIN LATERAL (SELECT greatest(o.read, e.seq - coalesce(e.span, 1)) + 1 AS seq FROM holdfast.event e
            WHERE e.seq > o.read AND e.seq < %(number)s::bigint + @MOST_PACKED
            AND e.seq - coalesce(e.span, 1) < %(number)s::bigint AND e.xid BETWEEN o.first::xid8 AND o.last::xid8 AND e.xid >= pg_snapshot_xmin(pg_current_snapshot())
            ORDER BY e.seq LIMIT 1) n),
    (SELECT greatest(%(number)s::bigint, e.seq - coalesce(e.span, 1)) + 1 FROM holdfast.event e
        WHERE e.seq > %(number)s::bigint AND e.seq - coalesce(e.span, 1) < bound.seq
        AND e.xid >= pg_snapshot_xmin(pg_current_snapshot()) ORDER BY e.seq LIMIT 1)) END AS stop;

-- A transaction that is still open is not looked for: between `read` and `number` there may be a long way.
-- :events
WITH late AS (
    SELECT n.* FROM unnest(%(first)s::text[], %(last)s::text[], %(read)s::bigint[]) AS o(first, last, read)
        CROSS JOIN LATERAL (SELECT p.* FROM (SELECT * FROM holdfast.event
                WHERE seq > o.read AND seq < %(number)s::bigint + @MOST_PACKED AND xid BETWEEN o.first::xid8 AND o.last::xid8
                    AND (%(queue)s::text IS NULL OR queue = %(queue)s)
                ORDER BY seq OFFSET 0) e
            CROSS JOIN LATERAL holdfast.unpacked(e) p
            WHERE p.seq > o.read AND p.seq <= %(number)s::bigint AND (%(id)s::text IS NULL OR p.id = %(id)s)
            ORDER BY e.seq, p.seq LIMIT %(limit)s::bigint) n
    WHERE CASE WHEN pg_is_in_recovery() THEN o.first::xid8 < pg_snapshot_xmin(pg_current_snapshot())
        ELSE o.first <> o.last OR pg_visible_in_snapshot(o.first::xid8, pg_current_snapshot()) END
), new AS (
    SELECT * FROM holdfast.events_after(%(number)s::bigint, %(queue)s::text, %(id)s::text, %(limit)s::bigint)
), page AS MATERIALIZED (
    SELECT * FROM (SELECT * FROM late UNION ALL SELECT * FROM new) found ORDER BY seq LIMIT %(limit)s::bigint
), bound AS MATERIALIZED (
    SELECT CASE WHEN count(*) = %(limit)s::bigint AND count(*) > 0 THEN max(seq) ELSE 9223372036854775807 END AS seq FROM page
)
SELECT log.*, page.* FROM (SELECT :log, :lost AS lost, :stop FROM bound) log LEFT JOIN page ON true ORDER BY page.seq;

-- :end
SELECT :log, :stop FROM (SELECT 9223372036854775807 AS seq) bound;

-- :missing
SELECT :lost AS lost;

-- :schedules
SELECT queue, name, revision, next_at_ms, body FROM holdfast.schedule
WHERE (%(queue)s::text IS NULL OR queue = %(queue)s) AND (%(schedule)s::text IS NULL OR name = %(schedule)s)
ORDER BY queue COLLATE "C", name COLLATE "C";
