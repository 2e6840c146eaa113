-- Blockers: the chains that a job waits for, and what their ends do to it.

-- The run is known to wait for these chains ([queue, id, run] of each). Those that are over already count as done.
-- A chain is locked before it is looked at, so that it cannot end unheard; v_failed: one that did not complete. One that
-- another call has locked is not waited for, as others are held: the call is repeated.
-- In a caller's transaction nothing is locked, for that may take long: `recheck_blockers` does it when the caller commits.
CREATE OR REPLACE FUNCTION holdfast.add_blockers(p_now bigint, p_run bigint, p_refs jsonb, p_policy text,
    OUT v_open integer, OUT v_failed text[]) LANGUAGE plpgsql AS $$
DECLARE
    v_firsts bigint[];
BEGIN
    IF current_setting('hf.joined', true) IS DISTINCT FROM 'on' THEN  -- nor may a successor start, or be absorbed, unheard
        PERFORM 1 FROM holdfast.successor s
        WHERE s.run = ANY (ARRAY(SELECT (value ->> 2)::bigint FROM jsonb_array_elements(p_refs)))
        ORDER BY s.run FOR SHARE NOWAIT;
    END IF;
    SELECT array_agg(holdfast.first_of_chain(p_now, r.value ->> 0, r.value ->> 1, (r.value ->> 2)::bigint) ORDER BY r.ord)
    INTO v_firsts FROM jsonb_array_elements(p_refs) WITH ORDINALITY AS r(value, ord);
    IF current_setting('hf.joined', true) = 'on' THEN
        PERFORM set_config('hf.blocked', concat_ws(',', nullif(current_setting('hf.blocked', true), ''), p_run), true);
    ELSE
        PERFORM 1 FROM holdfast.job WHERE run = ANY (v_firsts) ORDER BY run FOR SHARE NOWAIT;
    END IF;
    INSERT INTO holdfast.blocker (run, place, queue, id, blocker, state, last_queue, last_task, error, result)
    SELECT p_run, r.ord - 1, r.value ->> 0, r.value ->> 1, coalesce(f.run, s.run),
        CASE WHEN f.run IS NOT NULL THEN nullif(holdfast.end_state(f), 'open') WHEN s.run IS NULL THEN 'failed' END,
        CASE WHEN holdfast.end_state(f) <> 'open' THEN coalesce(t.queue, f.queue) END,
        CASE WHEN holdfast.end_state(f) <> 'open' THEN CASE WHEN t.run IS NULL THEN f.task ELSE t.task END END,
        CASE WHEN holdfast.end_state(f) <> 'open' THEN f.error WHEN f.run IS NULL AND s.run IS NULL THEN
            holdfast.error_record('BlockerMissing', 'blocker', 'there is no job ' || (r.value ->> 0) || '/' || (r.value ->> 1)) END,
        CASE WHEN holdfast.end_state(f) <> 'open' THEN f.result END
    FROM jsonb_array_elements(p_refs) WITH ORDINALITY AS r(value, ord)
        LEFT JOIN LATERAL (SELECT c.* FROM holdfast.job o CROSS JOIN LATERAL holdfast.current_row(o) c
            WHERE o.run = v_firsts[r.ord] AND (c.expires_at_ms IS NULL OR c.expires_at_ms > p_now) OFFSET 0) f ON true
        LEFT JOIN holdfast.job t ON t.run = ANY (ARRAY[f.tail])
        LEFT JOIN holdfast.successor s ON f.run IS NULL AND s.queue = ANY (ARRAY[r.value ->> 0])
            AND s.id = ANY (ARRAY[r.value ->> 1]) AND s.run = (r.value ->> 2)::bigint;
    SELECT s.v_open, s.v_failed INTO v_open, v_failed FROM holdfast.open_blockers(p_run, p_policy) s;
END $$;

-- A caller commits in whose transaction jobs came in that wait for others: those that ended while it was open did not
-- know of that. All of them are locked at once, in the common order, for no longer than the commit takes. What is
-- not there any more was absorbed by another run, or is gone.
CREATE OR REPLACE FUNCTION holdfast.recheck_blockers() RETURNS trigger LANGUAGE plpgsql /* planner */ AS $$
DECLARE
    v_now bigint := holdfast.clock(nullif(current_setting('hf.clock', true), '')::bigint);
    v_blocked bigint[] := string_to_array(nullif(current_setting('hf.blocked', true), ''), ',')::bigint[];
    v_firsts bigint[];
    v_gone bigint[];
BEGIN
    IF v_blocked IS NULL THEN
        RETURN NULL;  -- done, for another row of the same transaction
    END IF;
    PERFORM set_config('hf.blocked', '', true);
    LOOP
        v_firsts := ARRAY(SELECT DISTINCT blocker FROM holdfast.blocker
            WHERE run = ANY (v_blocked) AND coalesce(state, '') = '');
        PERFORM holdfast.share_jobs(v_firsts);
        v_gone := ARRAY(SELECT u.run FROM unnest(v_firsts) AS u(run)
            WHERE NOT EXISTS (SELECT 1 FROM holdfast.job j WHERE j.run = u.run OFFSET 0)
                AND NOT EXISTS (SELECT 1 FROM holdfast.successor s WHERE s.run = u.run OFFSET 0));
        UPDATE holdfast.blocker SET blocker = holdfast.find_run(queue, id, blocker)
        WHERE run = ANY (v_blocked) AND coalesce(state, '') = '' AND blocker = ANY (v_gone)
            AND holdfast.find_run(queue, id, blocker) IS NOT NULL;
        EXIT WHEN NOT FOUND;
    END LOOP;
    PERFORM holdfast.resolve_blockers(v_now, ARRAY(SELECT run FROM holdfast.job f
        WHERE run = ANY (v_firsts) AND holdfast.end_state(holdfast.current_row(f)) <> 'open' ORDER BY run));
    PERFORM holdfast.resolve_blockers(v_now, v_gone, true);
    RETURN NULL;
END $$;

-- How many blockers of a run are open, and one that did not complete, where that matters.
CREATE OR REPLACE FUNCTION holdfast.open_blockers(p_run bigint, p_policy text, OUT v_open integer, OUT v_failed text[])
LANGUAGE sql AS $$
    SELECT count(*) FILTER (WHERE state IS NULL),
        (SELECT ARRAY[queue, id] FROM holdfast.blocker WHERE run = p_run AND state <> 'completed' AND p_policy <> 'ignore'
         ORDER BY place LIMIT 1)
    FROM holdfast.blocker WHERE run = p_run
$$;

-- The jobs that wait for these chains, which are over (or, p_gone, about to be removed), get their outcome, and follow it.
CREATE OR REPLACE FUNCTION holdfast.resolve_blockers(p_now bigint, p_runs bigint[], p_gone boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    d record;
    j holdfast.job;
BEGIN
    IF NOT EXISTS (SELECT 1 FROM holdfast.blocker WHERE state IS NULL AND blocker = ANY (p_runs)) THEN
        RETURN;
    END IF;
    PERFORM holdfast.lock_waiters(p_runs);
    FOR d IN
        WITH open AS MATERIALIZED (  -- found by their index, and not one by one in a wide fan-in
            SELECT run, place, blocker FROM holdfast.blocker WHERE blocker = ANY (p_runs) AND state IS NULL
        ), done AS (
            UPDATE holdfast.blocker b
            SET state = CASE WHEN p_gone THEN 'cancelled' ELSE holdfast.end_state(f) END,
                result = CASE WHEN p_gone THEN NULL ELSE f.result END, error = CASE WHEN p_gone THEN NULL ELSE f.error END,
                last_queue = coalesce(t.queue, f.queue), last_task = CASE WHEN t.run IS NULL THEN f.task ELSE t.task END
            FROM open o LEFT JOIN LATERAL (SELECT c.* FROM holdfast.job e CROSS JOIN LATERAL holdfast.current_row(e) c
                    WHERE e.run = o.blocker OFFSET 0) f ON true LEFT JOIN holdfast.job t ON t.run = ANY (ARRAY[f.tail])
            WHERE b.run = ANY (ARRAY[o.run]) AND b.place = ANY (ARRAY[o.place]) AND coalesce(b.state, '') = ''
            RETURNING b.run, b.state, b.queue, b.id, b.place
        )
        SELECT run, count(*) AS count, (array_agg(queue ORDER BY place) FILTER (WHERE state <> 'completed'))[1] AS queue,
            (array_agg(id ORDER BY place) FILTER (WHERE state <> 'completed'))[1] AS id
        FROM done GROUP BY run ORDER BY run
    LOOP
        UPDATE holdfast.job SET blockers = blockers - d.count WHERE run = d.run AND state = 'blocked' RETURNING * INTO j;
        CONTINUE WHEN NOT FOUND;
        IF d.queue IS NOT NULL AND j.on_blocker_failed <> 'ignore' THEN
            PERFORM holdfast.follow_blocker_failure(p_now, j, d.queue, d.id);
        ELSIF j.blockers = 0 THEN
            PERFORM holdfast.unblock(p_now, j);
        END IF;
    END LOOP;
END $$;

-- A job whose blocker did not complete follows its policy. One failure after another, down a long line of jobs, is
-- done in a loop: what is found while that runs is only noted.
CREATE OR REPLACE FUNCTION holdfast.follow_blocker_failure(p_now bigint, j holdfast.job, p_queue text, p_id text) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    v_todo jsonb := coalesce(nullif(current_setting('hf.todo', true), ''), '[]')::jsonb || jsonb_build_array(
        jsonb_build_array(j.run, p_queue, p_id));
    v_error bytea;
    d jsonb;
BEGIN
    IF current_setting('hf.giving_up', true) = 'on' THEN
        PERFORM set_config('hf.todo', v_todo::text, true);
        RETURN;
    END IF;
    PERFORM set_config('hf.giving_up', 'on', true);
    WHILE jsonb_array_length(v_todo) > 0 LOOP
        PERFORM set_config('hf.todo', '', true);
        FOR d IN SELECT value FROM jsonb_array_elements(v_todo) LOOP
            SELECT * INTO j FROM holdfast.job WHERE run = (d ->> 0)::bigint AND state = 'blocked' FOR UPDATE;
            CONTINUE WHEN NOT FOUND;
            IF j.on_blocker_failed = 'cancel' THEN
                PERFORM holdfast.cancel_run(p_now, j, coalesce(j.exit, 'cancel'), false, 'blocker');
                PERFORM holdfast.refresh_lane(p_now, j.queue, j.key);
            ELSE
                v_error := convert_to(json_build_object('type', 'BlockerFailed', 'message',
                    format('it waited for ''%s/%s'', which did not complete', d ->> 1, d ->> 2),
                    'kind', 'blocker', 'traceback', '',
                    'fields', json_build_object('queue', d ->> 1, 'id', d ->> 2))::text, 'UTF8');
                PERFORM holdfast.fail(p_now, j, v_error, 'BlockerFailed',
                    holdfast.signature('BlockerFailed', 'it waited for #, which did not complete'), 'blocker');
            END IF;
        END LOOP;
        v_todo := coalesce(nullif(current_setting('hf.todo', true), ''), '[]')::jsonb;
    END LOOP;
    PERFORM set_config('hf.giving_up', '', true);
END $$;

-- A run that starts anew has the results that the old one had, and asks again for those it had not.
CREATE OR REPLACE FUNCTION holdfast.copy_blockers(p_now bigint, p_old bigint, p_new bigint, p_policy text,
    OUT v_open integer, OUT v_failed text[]) LANGUAGE plpgsql AS $$
DECLARE
    v_refs jsonb;
BEGIN
    SELECT jsonb_agg(jsonb_build_array(queue, id, NULL) ORDER BY place) INTO v_refs
    FROM holdfast.blocker WHERE run = p_old;
    PERFORM holdfast.add_blockers(p_now, p_new, v_refs, p_policy);
    UPDATE holdfast.blocker n
    SET blocker = o.blocker, state = o.state, last_queue = o.last_queue, last_task = o.last_task, error = NULL,
        result = o.result
    FROM holdfast.blocker o WHERE n.run = p_new AND o.run = p_old AND n.place = ANY (ARRAY[o.place]) AND o.state = 'completed';
    DELETE FROM holdfast.blocker WHERE run = p_old;
    SELECT s.v_open, s.v_failed INTO v_open, v_failed FROM holdfast.open_blockers(p_new, p_policy) s;
END $$;

-- Made once: to make it anew would wait for every caller's open transaction, and every other call for that.
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_trigger WHERE tgrelid = 'holdfast.blocker'::regclass AND tgname = 'recheck_blockers') THEN
        CREATE CONSTRAINT TRIGGER recheck_blockers AFTER INSERT ON holdfast.blocker DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW WHEN (current_setting('hf.joined', true) = 'on') EXECUTE FUNCTION holdfast.recheck_blockers();
    END IF;
END $$;
