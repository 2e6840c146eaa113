-- What the lake lacks.
SELECT batch, missing, noticed_at FROM gaps ORDER BY batch DESC LIMIT 20
