-- Fast path of `continue_chain`, for next jobs without key and blockers whose ids are free; it leaves the others to that one.
-- test_postgres_fast_paths.py compares the two.

-- The next job of each of these chains is there. p_nexts: each as JSON, made by `arguments.continuation`.
CREATE OR REPLACE FUNCTION holdfast.continue_chains(p_now bigint, p_chains bigint[], p_positions integer[], p_nexts text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_rest jsonb;
    v_runs bigint[];
    v_news jsonb;
    n jsonb;
BEGIN
    WITH input AS MATERIALIZED (
        SELECT nextval('holdfast.run') AS run, u.chain, u.position + 1 AS position, u.next::jsonb AS next
        FROM unnest(p_chains, p_positions, p_nexts) AS u(chain, position, next)
    ), timed AS MATERIALIZED (
        SELECT *, CASE WHEN next ? 'run_at' THEN greatest((next ->> 'run_at')::bigint, p_now)
            ELSE p_now + greatest(coalesce((next ->> 'delay')::bigint, 0), 0) END AS run_at
        FROM input
    ), added AS (  -- by chain: their rows are locked in this order, too
        INSERT INTO holdfast.job (run, queue, id, state, task, priority, run_at_ms, ready_at_ms, enqueued_at_ms,
            result_ttl_ms, overrides, envelope, payload, chain, position)
        SELECT run, next ->> 'queue', next ->> 'id', CASE WHEN run_at > p_now THEN 'scheduled' ELSE 'waiting' END,
            next ->> 'task', coalesce((next ->> 'priority')::integer, 0), run_at, run_at, p_now,
            (next ->> 'ttl')::bigint, next -> 'overrides', decode(next ->> 'envelope', 'hex'),
            decode(next ->> 'payload', 'hex'), chain, position
        FROM timed WHERE NOT next ? 'key' AND NOT next ? 'blockers' ORDER BY chain
        ON CONFLICT (queue, id) WHERE held DO NOTHING
        RETURNING run, queue, id, state, task, priority, run_at_ms, payload, envelope, chain
    ), counted AS (
        INSERT INTO holdfast.move (queue, state, count) SELECT queue, state, count(*) FROM added GROUP BY queue, state
    ), known AS (  -- their chains know of them
        UPDATE holdfast.job f SET tail = a.run FROM added a WHERE f.run = ANY (ARRAY[a.chain])
    ), placed AS (
        INSERT INTO holdfast.ready (queue, rank, run_at_ms, run)
        SELECT queue, -priority, run_at_ms, run FROM added WHERE state = 'waiting' ORDER BY run
    ), told AS (
        INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, task, priority, run_at_ms, payload,
            envelope)
        SELECT p_now, a.queue, a.id, a.run, 0, 'enqueue', a.state, a.task, a.priority, a.run_at_ms,
            CASE WHEN q.payloads THEN a.payload END, a.envelope
        FROM added a LEFT JOIN holdfast.queue q ON q.name = ANY (ARRAY[a.queue]) ORDER BY a.run
    )
    SELECT jsonb_agg(next || jsonb_build_object('run', t.run, 'chain', t.chain, 'position', position, 'at', run_at)
            ORDER BY t.run) FILTER (WHERE a.run IS NULL), array_agg(t.run) FILTER (WHERE a.run IS NOT NULL),
        (SELECT jsonb_agg(jsonb_build_object('queue', g.queue, 'waiting', g.waiting, 'sooner', g.sooner) ORDER BY g.queue)
         FROM (SELECT queue, count(*) FILTER (WHERE state = 'waiting') AS waiting,
                min(run_at_ms) FILTER (WHERE state = 'scheduled') AS sooner FROM added GROUP BY queue) g)
    INTO v_rest, v_runs, v_news FROM timed t LEFT JOIN added a ON a.run = t.run;
    IF v_runs IS NOT NULL THEN
        PERFORM holdfast.remove_fronts(v_runs);
    END IF;
    FOR n IN SELECT value FROM jsonb_array_elements(coalesce(v_news, '[]')) LOOP
        PERFORM holdfast.ensure_queue(n ->> 'queue');
        PERFORM holdfast.wake(n ->> 'queue', (n ->> 'waiting')::bigint);
        IF n ->> 'sooner' IS NOT NULL THEN
            PERFORM holdfast.wake_for(p_now, n ->> 'queue', (n ->> 'sooner')::bigint);
        END IF;
    END LOOP;
    FOR n IN SELECT value FROM jsonb_array_elements(coalesce(v_rest, '[]')) LOOP
        PERFORM holdfast.continue_chain(p_now, n);
    END LOOP;
END $$;
