-- update: blocked | scheduled | waiting -> waiting | scheduled | blocked
-- guard: the run has not started; an active one gets a successor instead
-- effects: change payload, run_at and counters by the update flags, append event

-- :change
UPDATE holdfast_job
SET state = :state, run_at_ms = :run_at, ready_at_ms = :run_at, task = :task, payload = :payload, envelope = :envelope,
    overrides = :overrides, result_ttl_ms = :result_ttl, priority = :priority, key = :key,
    failures = :failures, stalls = :stalls, timeouts = :timeouts, releases = :releases, snoozes = :snoozes,
    spared = CASE WHEN :reset_counts THEN attempts ELSE spared END,
    dedup_key = coalesce(:dedup_key, dedup_key),
    dedup_until_ms = CASE WHEN :dedup_key IS NULL THEN dedup_until_ms ELSE :dedup_until_ms END,
    company = CASE WHEN :reset_counts THEN NULL ELSE company END,
    error = CASE WHEN :reset_counts THEN NULL ELSE error END,
    signature = CASE WHEN :reset_counts THEN NULL ELSE signature END,
    progress = CASE WHEN :update_payload THEN NULL ELSE progress END,
    checkpoint = CASE WHEN :update_payload THEN NULL ELSE checkpoint END,
    absorbed_to = max(coalesce(absorbed_to, 0), :absorbed_to)
WHERE run = :run;

-- :successor
SELECT * FROM holdfast_successor WHERE queue = :queue AND id = :id;

-- :put_successor
INSERT OR REPLACE INTO holdfast_successor (queue, id, run, task, priority, key, run_at_ms, enqueued_at_ms,
    update_payload, update_run_at, reset_counts, result_ttl_ms, dedup_key, dedup_until_ms, overrides, envelope, payload)
VALUES (:queue, :id, :run, :task, :priority, :key, :run_at_ms, :enqueued_at_ms,
    :update_payload, :update_run_at, :reset_counts, :result_ttl_ms, :dedup_key, :dedup_until_ms, :overrides, :envelope, :payload);

-- :drop_successor
DELETE FROM holdfast_successor WHERE queue = :queue AND id = :id;
