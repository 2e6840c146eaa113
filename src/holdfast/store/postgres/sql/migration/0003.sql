-- Schedules. The revision is another one with every change; the body is not looked into.
CREATE TABLE holdfast.schedule (
    queue      text  NOT NULL,
    name       text  NOT NULL,
    revision   text  NOT NULL,
    next_at_ms bigint,
    body       bytea NOT NULL,
    PRIMARY KEY (queue, name)
);
CREATE INDEX schedule_next ON holdfast.schedule (queue, next_at_ms) WHERE next_at_ms IS NOT NULL;
