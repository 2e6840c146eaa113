-- progress: active -> active
-- guard: the caller holds the lease
-- effects: store progress and checkpoint, append at most one event a second

-- :store
UPDATE holdfast_job
SET progress = coalesce(:progress, progress), checkpoint = coalesce(:checkpoint, checkpoint)
WHERE run = :run;

-- :noted
UPDATE holdfast_job SET progressed_at_ms = :now
WHERE run = :run AND (progressed_at_ms IS NULL OR progressed_at_ms <= :now - @PROGRESS_EVENT_MS OR progressed_at_ms > :now);
