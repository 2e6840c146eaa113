-- Statements for those who measure: keys, what grows and is late, and who waits for a chain.

-- :lane
SELECT k.key,
    (SELECT count(*) FROM (SELECT 1 FROM holdfast.ready r WHERE r.queue = %(queue)s AND r.key = k.key
        LIMIT %(counted)s::bigint) w)::bigint AS waiting,
    (SELECT count(*) FROM holdfast.job j WHERE j.queue = %(queue)s AND j.active_key = k.key) AS active,
    (SELECT concurrency FROM holdfast.key_limit l WHERE l.queue = %(queue)s AND l.key = k.key) AS own_limit,
    l.ready_at_ms, coalesce(l.cooling, false) AS cooling, l.tokens, l.tokens_at_ms,
    (SELECT j.ready_at_ms FROM (SELECT r.run FROM holdfast.ready r WHERE r.queue = %(queue)s AND r.key = k.key
        ORDER BY r.rank, r.run_at_ms, r.run LIMIT 1) f
        CROSS JOIN LATERAL (SELECT ready_at_ms FROM holdfast.job WHERE run = f.run OFFSET 0) j) AS oldest_waiting_ms
FROM k LEFT JOIN LATERAL (SELECT * FROM holdfast.lane WHERE queue = %(queue)s AND key = k.key OFFSET 0) l ON true;

-- Keys among which a list chooses; those with active jobs, and those of the jobs that come first, however many there are.
-- :keys
WITH k AS MATERIALIZED (
    (SELECT key FROM holdfast.lane WHERE queue = %(queue)s ORDER BY key LIMIT @KEYS_LOOKED_AT)
    UNION SELECT active_key FROM holdfast.job WHERE queue = %(queue)s AND active_key IS NOT NULL AND %(order)s = 'busiest'
    UNION (SELECT key FROM (SELECT key FROM holdfast.ready WHERE queue = %(queue)s AND key || '' IS NOT NULL AND %(order)s = 'starved'
        ORDER BY run_at_ms, run LIMIT @KEYS_LOOKED_AT) f)
) :lane;

-- :chosen
WITH k AS MATERIALIZED (SELECT u.key FROM unnest(%(keys)s::text[]) AS u(key)) :lane;

-- :active
SELECT q.name, holdfast.clock(%(now)s::bigint) AS now_ms,
    (SELECT json_object_agg(key, number)::text FROM (SELECT active_key AS key, count(*) AS number FROM holdfast.job
        WHERE queue = q.name AND active_key IS NOT NULL GROUP BY active_key) a) AS active,
    (SELECT due_at_ms FROM holdfast.job WHERE queue = q.name AND due_at_ms IS NOT NULL ORDER BY due_at_ms LIMIT 1) AS due
FROM holdfast.queue q;

-- :size
SELECT holdfast.clock(%(now)s::bigint) AS now_ms,
    (SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM holdfast.event_seq) AS newest,
    (SELECT value::bigint FROM holdfast.meta WHERE name = 'trimmed') AS trimmed,
    pg_total_relation_size('holdfast.event') AS bytes,
    (SELECT json_object_agg(substr(m.name, 8), json_build_array(r.number, f.at_ms))::text FROM holdfast.meta m
        CROSS JOIN LATERAL (SELECT split_part(m.value, ' ', 1)::bigint AS number) r
        LEFT JOIN LATERAL (SELECT at_ms FROM holdfast.event e WHERE e.seq > r.number ORDER BY e.seq LIMIT 1) f ON true
        WHERE m.name LIKE 'reader:%%'
            AND split_part(m.value, ' ', 2)::bigint > holdfast.clock(%(now)s::bigint) - @READER_FORGOTTEN_MS) AS readers;

-- :dependants
WITH f AS MATERIALIZED (SELECT holdfast.chain_by_job(%(now)s::bigint, %(queue)s, %(id)s, %(run)s::bigint) AS run),
    b AS MATERIALIZED (SELECT DISTINCT d.run FROM f CROSS JOIN LATERAL (
        SELECT run FROM holdfast.blocker WHERE blocker = f.run AND state IS NULL LIMIT @MOST_COUNTED) d),
    few AS MATERIALIZED (SELECT run FROM b ORDER BY run LIMIT %(limit)s::bigint)
SELECT (SELECT count(*) FROM b) AS count, j.queue, j.id, j.run FROM (SELECT 1) one
    LEFT JOIN few ON true
    LEFT JOIN LATERAL (SELECT queue, id, run FROM holdfast.job WHERE run = few.run OFFSET 0) j ON true
ORDER BY j.run;
