-- Schedules. The revision is another one with every change; the body is not looked into.
CREATE TABLE holdfast_schedule (
    queue      TEXT NOT NULL,
    name       TEXT NOT NULL,
    revision   TEXT NOT NULL,
    next_at_ms INTEGER,
    body       BLOB NOT NULL,
    PRIMARY KEY (queue, name)
) WITHOUT ROWID;
CREATE INDEX holdfast_schedule_next ON holdfast_schedule (queue, next_at_ms) WHERE next_at_ms IS NOT NULL;
