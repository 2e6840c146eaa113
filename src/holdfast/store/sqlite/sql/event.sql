-- The one log. Every transition appends to it in its own transaction.

-- envelope: `own` is that of the run, `successor` that of the one which waits for it.
-- :append
INSERT INTO holdfast_event (at_ms, queue, id, run, attempt, transition, state, cause, task, worker, key, priority,
    run_at_ms, failures, stalls, timeouts, releases, wait_ms, run_ms, error_type, error_signature, payload, envelope,
    actor)
SELECT :now, queue, id, run, attempts, :transition, state, :cause, task,
    CASE WHEN :ran OR :transition = 'claim' THEN session END, key, priority, run_at_ms,
    failures, stalls, timeouts, releases,
    CASE WHEN :transition = 'claim' THEN max(0, :now - ready_at_ms) END,
    CASE WHEN :ran THEN max(0, :now - claimed_at_ms) END,
    :error_type, :error_signature, CASE WHEN :payload THEN payload END,
    CASE :envelope WHEN 'own' THEN envelope
        WHEN 'successor' THEN (SELECT s.envelope FROM holdfast_successor s WHERE s.queue = j.queue AND s.id = j.id) END,
    :actor
FROM holdfast_job j WHERE run IN (SELECT value FROM json_each(:runs));

-- :append_progress
INSERT INTO holdfast_event (at_ms, queue, id, run, attempt, transition, state, task, worker, key, priority,
    run_at_ms, failures, stalls, timeouts, releases, progress, message)
SELECT :now, queue, id, run, attempts, 'progress', state, task, session, key, priority, run_at_ms,
    failures, stalls, timeouts, releases, :fraction, :message
FROM holdfast_job WHERE run = :run;

-- :append_range
INSERT INTO holdfast_event (at_ms, queue, id, run, attempt, transition, state, task, key, priority,
    run_at_ms, failures, stalls, timeouts, releases, payload, envelope)
SELECT :now, queue, id, run, attempts, 'enqueue', state, task, key, priority, run_at_ms,
    failures, stalls, timeouts, releases, CASE WHEN :payload THEN payload END, envelope
FROM holdfast_job WHERE run BETWEEN :first AND :last;

-- :append_gone
INSERT INTO holdfast_event (at_ms, queue, id, run, attempt, transition, state, cause, task, key, priority,
    run_at_ms, failures, stalls, timeouts, releases, actor)
SELECT :now, queue, id, run, attempts, :transition, NULL, :cause, task, key, priority, run_at_ms,
    failures, stalls, timeouts, releases, :actor
FROM holdfast_job WHERE run IN (SELECT value FROM json_each(:runs));

-- An action that is no transition: id and run are those of the job that it was about, if any.
-- :append_action
INSERT INTO holdfast_event (at_ms, queue, id, run, attempt, transition, cause, task, worker, key, priority, failures,
    stalls, timeouts, releases, message, actor)
VALUES (:now, :queue, :id, :run, 0, 'operate', :cause, :task, :worker, :key, 0, 0, 0, 0, 0, :message, :actor);
