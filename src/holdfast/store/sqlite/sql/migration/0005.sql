-- company: of a job that stalled, at most so many jobs may run where it is tried next, itself included; else NULL.
-- The order of those that wait passes over suspects, which have one of their own.
ALTER TABLE holdfast_job ADD COLUMN company INTEGER;
DROP INDEX holdfast_job_waiting;
CREATE INDEX holdfast_job_waiting ON holdfast_job (queue, key, company, priority DESC, run_at_ms, run)
    WHERE state = 'waiting';
CREATE INDEX holdfast_job_suspect ON holdfast_job (queue, priority DESC, run_at_ms, run)
    WHERE state = 'waiting' AND company IS NOT NULL;
