-- The event log: written with each transition, trimmed by upkeep.

-- Whoever acts is known to the rest of the transaction. A setting, so that no function has to hand it on.
CREATE OR REPLACE FUNCTION holdfast.act_as(p_actor text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF coalesce(p_actor, '') <> coalesce(current_setting('holdfast_acting.actor', true), '') THEN
        PERFORM set_config('holdfast_acting.actor', coalesce(p_actor, ''), true);
    END IF;
END $$;

-- The actor for an event: of what somebody may ask for, but not of what follows from that at a dependant.
CREATE OR REPLACE FUNCTION holdfast.actor_of(p_transition text, p_cause text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN p_transition IN ('cancel', 'promote', 'requeue', 'delete', 'complete') AND p_cause IS DISTINCT FROM 'blocker'
        THEN nullif(current_setting('holdfast_acting.actor', true), '') END
$$;

-- Append the event of an action that is no transition. p_action: name, message; id, run, task, key, worker of what it was
-- about; actor.
CREATE OR REPLACE FUNCTION holdfast.append_action(p_now bigint, p_queue text, p_action jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, cause, task, worker, key, priority, message, actor)
    VALUES (p_now, p_queue, coalesce(p_action ->> 'id', ''), coalesce((p_action ->> 'run')::bigint, 0), 0, 'operate',
        p_action ->> 'name', p_action ->> 'task', p_action ->> 'worker', p_action ->> 'key', 0, p_action ->> 'message',
        p_action ->> 'actor');
END $$;

-- Append an event of each run. p_ran: an attempt ended with it. p_payload: with the payload. p_carries: with the envelope of
-- the job; else with p_envelope.
CREATE OR REPLACE FUNCTION holdfast.append_events(p_now bigint, p_transition text, p_runs bigint[], p_cause text DEFAULT NULL,
    p_ran boolean DEFAULT false, p_type text DEFAULT NULL, p_signature text DEFAULT NULL, p_payload boolean DEFAULT false,
    p_carries boolean DEFAULT false, p_envelope bytea DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, cause, task, worker, key, priority,
        run_at_ms, failures, stalls, timeouts, releases, wait_ms, run_ms, error_type, error_signature, payload, envelope,
        actor)
    SELECT p_now, queue, id, run, attempts, p_transition, state, p_cause, task,
        CASE WHEN p_ran OR p_transition = 'claim' THEN session END, key, priority, run_at_ms,
        failures, stalls, timeouts, releases,
        CASE WHEN p_transition = 'claim' THEN greatest(0, p_now - ready_at_ms) END,
        CASE WHEN p_ran THEN greatest(0, p_now - claimed_at_ms) END,
        p_type, p_signature, CASE WHEN p_payload THEN payload END, CASE WHEN p_carries THEN envelope ELSE p_envelope END,
        holdfast.actor_of(p_transition, p_cause)
    FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run;
END $$;

-- The same for runs that are about to be removed.
CREATE OR REPLACE FUNCTION holdfast.append_removals(p_now bigint, p_transition text, p_cause text, p_runs bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO holdfast.event (at_ms, queue, id, run, attempt, transition, state, cause, task, key, priority, run_at_ms,
        failures, stalls, timeouts, releases, actor)
    SELECT p_now, queue, id, run, attempts, p_transition, NULL, p_cause, task, key, priority, run_at_ms,
        failures, stalls, timeouts, releases, holdfast.actor_of(p_transition, p_cause)
    FROM holdfast.job WHERE run = ANY (p_runs) ORDER BY run;
END $$;

-- The log keeps about so many events, and up to @MOST_BEHIND times as many that a reader lacks; how far it was trimmed stays
-- known. True when there is more to trim.
CREATE OR REPLACE FUNCTION holdfast.trim_log(p_now bigint, p_history bigint, p_limit integer) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    v_last bigint := (SELECT seq FROM holdfast.event ORDER BY seq DESC LIMIT 1);
    v_upto bigint;
    v_gone bigint;
    v_cut bigint;
    v_xid text;
    v_last_xid text;
BEGIN
    IF v_last IS NULL OR v_last <= p_history
        OR (SELECT seq - coalesce(span, 1) FROM holdfast.event ORDER BY seq LIMIT 1) >= v_last - p_history THEN
        RETURN false;
    END IF;
    PERFORM 1 FROM holdfast.meta WHERE name = 'trimmed' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;  -- another call is at it
    END IF;
    v_upto := greatest(least(v_last - p_history, holdfast.read_by_all_readers(p_now)), v_last - @MOST_BEHIND * p_history);
    WITH oldest AS MATERIALIZED (
        SELECT ctid AS place FROM holdfast.event WHERE seq <= v_upto ORDER BY seq LIMIT p_limit
    ), gone AS (
        DELETE FROM holdfast.event WHERE ctid = ANY (ARRAY(SELECT place FROM oldest)) RETURNING xid, seq
    )
    SELECT count(*), max(seq), max(xid::text::bigint)::text INTO v_gone, v_cut, v_xid FROM gone;
    IF v_gone < p_limit THEN  -- a row of many events that goes beyond that keeps the later ones
        UPDATE holdfast.event SET span = seq - v_upto, runs = runs[v_upto - seq + span + 1:], ids = ids[v_upto - seq + span + 1:],
            tasks = tasks[v_upto - seq + span + 1:], priorities = priorities[v_upto - seq + span + 1:],
            run_ats = run_ats[v_upto - seq + span + 1:], elapsed = elapsed[v_upto - seq + span + 1:],
            payloads = payloads[v_upto - seq + span + 1:], envelopes = envelopes[v_upto - seq + span + 1:]
        WHERE seq = (SELECT seq FROM holdfast.event WHERE seq > v_upto ORDER BY seq LIMIT 1) AND seq - span < v_upto
        RETURNING xid::text INTO v_last_xid;
        IF FOUND THEN
            v_cut := v_upto;
            v_xid := greatest(v_xid::bigint, v_last_xid::bigint)::text;
        END IF;
    END IF;
    UPDATE holdfast.meta SET value = greatest(value::bigint, v_cut)::text WHERE name = 'trimmed' AND v_cut IS NOT NULL;
    UPDATE holdfast.meta SET value = greatest(value::bigint, v_xid::bigint)::text
    WHERE name = 'trimmed_xid' AND v_xid IS NOT NULL;
    RETURN v_gone >= p_limit;
END $$;
