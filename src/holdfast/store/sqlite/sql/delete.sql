-- delete: blocked | scheduled | waiting | active | completed | failed | cancelled -> nothing
-- guard: somebody asks for it
-- effects: remove the run and everything that points to it, signal its handler, append event

-- :remove
DELETE FROM holdfast_job WHERE run = :run;
