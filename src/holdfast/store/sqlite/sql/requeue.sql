-- requeue: completed | failed | cancelled -> waiting | scheduled | blocked
-- guard: no other run holds the id
-- effects: number a new run with fresh counters, append event, wake one worker

-- :mark
UPDATE holdfast_job SET held = 0, requeued_as = :requeued_as WHERE run = :run;
