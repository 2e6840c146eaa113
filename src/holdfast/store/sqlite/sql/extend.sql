-- extend: active -> active
-- guard: the session has not been reaped
-- effects: move the session's expiry

-- :renew
UPDATE holdfast_session SET heard_at_ms = :now, expires_at_ms = :now + :lease,
    memory_bytes = coalesce(:memory, memory_bytes)
WHERE id = :session AND dead = 0;

-- :aborts
SELECT queue, id, run, attempt, reason FROM holdfast_abort WHERE session = :session;
