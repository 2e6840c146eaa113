-- promote: scheduled -> waiting
-- guard: its run_at has come, or somebody asks for it now
-- effects: take its place in the queue, append event

-- Whether a job, or the token of a lane, or the end of its cooling, is due.
-- :any_due
SELECT EXISTS (SELECT 1 FROM holdfast_job WHERE queue = :queue AND state = 'scheduled' AND run_at_ms <= :now)
    OR EXISTS (SELECT 1 FROM holdfast_lane WHERE queue = :queue AND ready_at_ms <= :now AND cooling = 0)
    OR EXISTS (SELECT 1 FROM holdfast_lane WHERE queue = :queue AND ready_at_ms <= :now AND cooling = 1);

-- :due
UPDATE holdfast_job SET state = 'waiting', ready_at_ms = run_at_ms
WHERE run IN (SELECT run FROM holdfast_job
              WHERE queue = :queue AND state = 'scheduled' AND run_at_ms <= :now
              ORDER BY run_at_ms, run LIMIT :limit)
RETURNING run, key;

-- :now
UPDATE holdfast_job SET state = 'waiting', run_at_ms = :now, ready_at_ms = :now WHERE run = :run;
