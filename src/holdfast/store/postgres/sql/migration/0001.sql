-- One row for each run. The row that answers for an id is the one that is held.
-- chain: the run of its chain's first job, NULL for a job that neither continued nor continues another. Of a first job that
-- continued: chain_state (open, then how it ended), ended_at_ms, and tail, the run of the chain's latest job.
-- blockers: how many are open, NULL for a job that never had any. odd: what the row holds that Holdfast never writes.
-- company: of a job that stalled, at most so many jobs may run where it is tried next, itself included; else NULL.
-- snoozes: how often its handler asked to run later. spared: how many of its attempts do not count towards the cap on all
-- of them, because they were handed back free of charge, or an update reset the counts. error_signature: of the last error
-- of a job that failed, or is failing; empty where the error has none.
--
-- No index may have a column that changes when a job without a key is claimed or completed: such updates stay in their
-- page and touch no index. So what is waiting, held by a worker or to be removed is kept in tables of its own, and the
-- columns due_at_ms, active_key, failed_run, blocked_run, cancelled_run and signed_run, which indexes have, are NULL and stay so for such a job. The pages have room for all three versions
-- of such a job, since none can be removed while a transaction is kept open.
CREATE SEQUENCE holdfast.run;
CREATE TABLE holdfast.job (
    run              bigint  NOT NULL,
    queue            text    NOT NULL,
    id               text    NOT NULL,
    state            text    NOT NULL,
    held             boolean NOT NULL DEFAULT true,
    cancel           boolean NOT NULL DEFAULT false,
    task             text,
    priority         integer NOT NULL DEFAULT 0,
    key              text,
    run_at_ms        bigint  NOT NULL,
    ready_at_ms      bigint  NOT NULL,
    enqueued_at_ms   bigint  NOT NULL,
    claimed_at_ms    bigint,
    finished_at_ms   bigint,
    free_at_ms       bigint,
    expires_at_ms    bigint,
    attempts         integer NOT NULL DEFAULT 0,
    failures         integer NOT NULL DEFAULT 0,
    stalls           integer NOT NULL DEFAULT 0,
    timeouts         integer NOT NULL DEFAULT 0,
    releases         integer NOT NULL DEFAULT 0,
    session          text,
    grip             bigint,
    exit             text,
    last_session     text,
    last_exit        text,
    absorbed_to      bigint,
    requeued_as      bigint,
    result_ttl_ms    bigint,
    dedup_key        text,
    dedup_until_ms   bigint,
    progressed_at_ms bigint,
    progress         bytea,
    checkpoint       bytea,
    overrides        jsonb,
    envelope         bytea,
    error            bytea,
    result           bytea,
    payload          bytea   NOT NULL,
    due_at_ms        bigint  GENERATED ALWAYS AS (CASE WHEN state = 'scheduled' THEN run_at_ms END) STORED,
    active_key       text    GENERATED ALWAYS AS (CASE WHEN state = 'active' THEN key END) STORED,
    failed_run       bigint  GENERATED ALWAYS AS (CASE WHEN state = 'failed' THEN run END) STORED,
    chain             bigint,
    position          integer NOT NULL DEFAULT 0,
    chain_state       text,
    ended_at_ms       bigint,
    tail              bigint,
    blockers          integer,
    on_blocker_failed text,
    odd               text GENERATED ALWAYS AS (CASE
        WHEN state NOT IN ('blocked', 'scheduled', 'waiting', 'active', 'completed', 'failed', 'cancelled') THEN 'state'
        WHEN chain_state NOT IN ('open', 'completed', 'failed', 'cancelled') THEN 'chain_state'
        WHEN least(run_at_ms, ready_at_ms, enqueued_at_ms, claimed_at_ms, finished_at_ms, free_at_ms, expires_at_ms,
                result_ttl_ms, dedup_until_ms, progressed_at_ms, ended_at_ms) < -@LARGEST_NUMBER
            OR greatest(run_at_ms, ready_at_ms, enqueued_at_ms, claimed_at_ms, finished_at_ms, free_at_ms, expires_at_ms,
                result_ttl_ms, dedup_until_ms, progressed_at_ms, ended_at_ms) > @LARGEST_NUMBER THEN 'an instant'
        WHEN least(attempts, failures, stalls, timeouts, releases, position, blockers) < 0
            OR greatest(attempts, failures, stalls, timeouts, releases, position, blockers) > @MOST_COUNT THEN 'a counter'
        WHEN priority NOT BETWEEN @LOWEST_PRIORITY AND @HIGHEST_PRIORITY THEN 'priority'
        WHEN jsonb_typeof(overrides) <> 'object' THEN 'overrides'
        WHEN on_blocker_failed NOT IN ('fail', 'cancel', 'ignore') THEN 'on_blocker_failed'
        END) STORED,
    company           integer,
    snoozes           integer NOT NULL DEFAULT 0,
    spared            integer NOT NULL DEFAULT 0,
    error_signature   text,
    blocked_run       bigint GENERATED ALWAYS AS (CASE WHEN state = 'blocked' THEN run END) STORED,
    cancelled_run     bigint GENERATED ALWAYS AS (CASE WHEN state = 'cancelled' THEN run END) STORED,
    signed_run        bigint GENERATED ALWAYS AS (CASE WHEN error_signature IS NOT NULL THEN run END) STORED,
    PRIMARY KEY (run)
) WITH (fillfactor = 27, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_insert_scale_factor = 0.2);
CREATE UNIQUE INDEX job_id ON holdfast.job (queue, id text_pattern_ops) WHERE held;
CREATE INDEX job_past ON holdfast.job (queue, id text_pattern_ops, run) WHERE NOT held;
CREATE INDEX job_scheduled ON holdfast.job (queue, due_at_ms, run) WHERE due_at_ms IS NOT NULL;
CREATE INDEX job_active ON holdfast.job (queue, active_key) WHERE active_key IS NOT NULL;
CREATE INDEX job_failed ON holdfast.job (queue, failed_run) WHERE failed_run IS NOT NULL;
CREATE INDEX job_blocked ON holdfast.job (queue, blocked_run) WHERE blocked_run IS NOT NULL;
CREATE INDEX job_cancelled ON holdfast.job (queue, cancelled_run) WHERE cancelled_run IS NOT NULL;
CREATE INDEX job_signature ON holdfast.job (error_signature, signed_run) WHERE signed_run IS NOT NULL;
CREATE INDEX job_dedup ON holdfast.job (queue, dedup_key, run) WHERE dedup_key IS NOT NULL;
CREATE INDEX job_chain ON holdfast.job (chain, position) WHERE chain IS NOT NULL;
CREATE INDEX job_chains ON holdfast.job (run) WHERE chain_state IS NOT NULL;
CREATE INDEX job_odd ON holdfast.job (run) WHERE odd IS NOT NULL;

-- The order of the waiting jobs; rank is the priority, highest first. Rows are put in and removed by a call that has
-- locked the job, and never changed.
CREATE TABLE holdfast.ready (
    queue     text    NOT NULL,
    key       text,
    rank      integer NOT NULL,
    run_at_ms bigint  NOT NULL,
    run       bigint  NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX ready_plain ON holdfast.ready (queue, rank, run_at_ms, run) WHERE key IS NULL;
-- Which job with a key has waited longest. Written so that the planner sees no use for it wherever a key is looked for.
CREATE INDEX ready_age ON holdfast.ready (queue, run_at_ms, run) WHERE key || '' IS NOT NULL;
CREATE INDEX ready_key ON holdfast.ready (queue, key, rank, run_at_ms, run) WHERE key IS NOT NULL;

-- Where a claim begins to look while a transaction that is held open keeps PostgreSQL from forgetting what was claimed.
-- looked_at, took: when the whole order was last looked through, and for how many seconds.
CREATE TABLE holdfast.front (
    queue     text    PRIMARY KEY,
    rank      integer NOT NULL,
    run_at_ms bigint  NOT NULL,
    run       bigint  NOT NULL,
    looked_at timestamptz      NOT NULL,
    took      double precision NOT NULL
) WITH (fillfactor = 10);

-- What a worker took in one claim, until nothing of it is left. Whether a run is still held, its own row says.
CREATE SEQUENCE holdfast.grip_number;
CREATE TABLE holdfast.grip (
    number    bigint   PRIMARY KEY,
    session   text     NOT NULL,
    remaining integer  NOT NULL,
    runs      bigint[] NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX grip_session ON holdfast.grip (session);

-- When to look whether runs are to be removed: each has a row for the time in its own, or for a later one. Completed runs
-- have rows of their own, since they are listed by them.
CREATE TABLE holdfast.expiry (
    queue     text     NOT NULL,
    at_ms     bigint   NOT NULL,
    runs      bigint[] NOT NULL,
    completed boolean  NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX expiry_order ON holdfast.expiry (queue, completed, at_ms);

-- The next dispatch of an id whose run is active. It has its run number from the start.
CREATE TABLE holdfast.successor (
    queue          text    NOT NULL,
    id             text    NOT NULL,
    run            bigint  NOT NULL,
    task           text,
    priority       integer NOT NULL,
    key            text,
    run_at_ms      bigint  NOT NULL,
    enqueued_at_ms bigint  NOT NULL,
    update_payload boolean NOT NULL,
    update_run_at  text    NOT NULL,
    reset_counts   boolean NOT NULL,
    result_ttl_ms  bigint,
    dedup_key      text,
    dedup_until_ms bigint,
    overrides      jsonb,
    envelope       bytea,
    payload        bytea   NOT NULL,
    PRIMARY KEY (queue, id)
);

CREATE INDEX successor_dedup ON holdfast.successor (queue, dedup_key) WHERE dedup_key IS NOT NULL;

-- declared: what workers say; operator: what people set above it. The other columns are what follows from both.
CREATE TABLE holdfast.queue (
    name            text    PRIMARY KEY,
    revision        bigint  NOT NULL DEFAULT 0,
    version         bigint  NOT NULL DEFAULT 0,
    declared        jsonb   NOT NULL DEFAULT '{}',
    operator        jsonb   NOT NULL DEFAULT '{}',
    paused          boolean NOT NULL DEFAULT false,
    concurrency     integer,
    key_concurrency integer,
    rate_count      double precision,
    rate_per        double precision,
    rate_burst      integer,
    key_rate_count  double precision,
    key_rate_per    double precision,
    key_rate_burst  integer,
    result_ttl_ms   bigint  NOT NULL DEFAULT @RESULT_TTL_MS,
    completed_ms    bigint,
    failed_ms       bigint  NOT NULL DEFAULT @FAILED_KEPT_MS,
    failed_count    bigint,
    payloads        boolean NOT NULL DEFAULT false,
    turn            bigint  NOT NULL DEFAULT 0,
    keyless_turn    bigint  NOT NULL DEFAULT 0,
    tokens          double precision,
    tokens_at_ms    bigint
) WITH (fillfactor = 50);

-- declared and operator as above, for one task; the limits are what follows from both. A limit that is NULL is none; a
-- priority that is NULL is that of the job that failed.
CREATE TABLE holdfast.policy (
    queue            text NOT NULL,
    task             text NOT NULL,
    version          bigint,
    declared         jsonb,
    operator         jsonb,
    failures         integer,
    stalls           integer,
    timeouts         integer,
    releases         integer,
    initial          double precision NOT NULL,
    multiplier       double precision NOT NULL,
    maximum          double precision NOT NULL,
    jitter           double precision NOT NULL,
    timeout_ms       bigint,
    on_failure_queue text,
    on_failure_task  text,
    attempts            integer,
    snoozes             integer,
    on_failure_priority integer,
    PRIMARY KEY (queue, task)
);

-- One row for each key that has jobs (or, cooling, a bucket that is not full again before ready_at_ms).
CREATE TABLE holdfast.lane (
    queue        text    NOT NULL,
    key          text    NOT NULL,
    turn         bigint  NOT NULL,
    ready        boolean NOT NULL DEFAULT false,
    ready_at_ms  bigint,
    cooling      boolean NOT NULL DEFAULT false,
    tokens       double precision,
    tokens_at_ms bigint,
    PRIMARY KEY (queue, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lane_ready ON holdfast.lane (queue, turn) WHERE ready;
CREATE INDEX lane_timed ON holdfast.lane (queue, cooling, ready_at_ms) WHERE ready_at_ms IS NOT NULL;

CREATE TABLE holdfast.key_limit (
    queue       text    NOT NULL,
    key         text    NOT NULL,
    concurrency integer NOT NULL,
    PRIMARY KEY (queue, key)
);

-- A worker. parked: the room it waits to fill, or NULL. command: what it is told to do, or NULL.
CREATE TABLE holdfast.session (
    id            text    PRIMARY KEY,
    info          bytea   NOT NULL,
    lease_ms      bigint  NOT NULL,
    started_at_ms bigint  NOT NULL,
    heard_at_ms   bigint  NOT NULL,
    expires_at_ms bigint  NOT NULL,
    dead          boolean NOT NULL DEFAULT false,
    parked        integer,
    address       text,
    memory_bytes  bigint,
    command       text
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- The queues that a worker serves, until nothing of it is left in them.
CREATE TABLE holdfast.serving (
    queue text NOT NULL,
    id    text NOT NULL,
    PRIMARY KEY (queue, id)
);

-- Handlers that must be told to stop.
CREATE TABLE holdfast.abort (
    session text    NOT NULL,
    run     bigint  NOT NULL,
    attempt integer NOT NULL,
    queue   text    NOT NULL,
    id      text    NOT NULL,
    reason  text    NOT NULL,
    PRIMARY KEY (session, run, attempt)
);

-- Callers that wait for a run to end.
CREATE TABLE holdfast.watch (
    run     bigint NOT NULL,
    address text   NOT NULL,
    queue   text   NOT NULL,
    id      text   NOT NULL,
    PRIMARY KEY (run, address)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- One answer of `enqueue`. result and error are of a run that has ended.
CREATE TYPE holdfast.answer AS (status text, id text, run bigint, state text, result bytea, error bytea);

-- First answers, for calls that are repeated because their reply was lost.
CREATE TABLE holdfast.request (
    id      text   PRIMARY KEY,
    at_ms   bigint NOT NULL,
    answers holdfast.answer[],
    other   jsonb
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX request_age ON holdfast.request (at_ms);

-- The one log. A transaction's rows appear together, so that (xid, seq) is an order in which to read on.
CREATE SEQUENCE holdfast.event_seq;
CREATE TABLE holdfast.event (
    xid             xid8    NOT NULL DEFAULT pg_current_xact_id(),
    seq             bigint  NOT NULL DEFAULT nextval('holdfast.event_seq'),
    at_ms           bigint  NOT NULL,
    run             bigint  NOT NULL,
    attempt         integer NOT NULL,
    priority        integer NOT NULL,
    failures        integer NOT NULL DEFAULT 0,
    stalls          integer NOT NULL DEFAULT 0,
    timeouts        integer NOT NULL DEFAULT 0,
    releases        integer NOT NULL DEFAULT 0,
    run_at_ms       bigint,
    wait_ms         bigint,
    run_ms          bigint,
    progress        double precision,
    queue           text    NOT NULL,
    id              text    NOT NULL,
    transition      text    NOT NULL,
    state           text,
    cause           text,
    task            text,
    worker          text,
    key             text,
    error_type      text,
    error_signature text,
    message         text,
    payload         bytea,
    envelope        bytea,   -- of events that set one: enqueue, update, requeue
    actor           text
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX event_order ON holdfast.event (seq, xid);

-- heard_at_ms: when any session was last heard; lease_ms: its lease, than which a longer silence is an outage. One row.
CREATE TABLE holdfast.pulse (heard_at_ms bigint NOT NULL, lease_ms bigint NOT NULL DEFAULT @DEFAULT_LEASE_MS) WITH (fillfactor = 10);
INSERT INTO holdfast.pulse VALUES (0);

-- The order of those that wait and are suspect, with a key or without; they have no place in `ready`.
CREATE TABLE holdfast.suspect (
    queue     text    NOT NULL,
    rank      integer NOT NULL,
    run_at_ms bigint  NOT NULL,
    run       bigint  NOT NULL,
    key       text,
    company   integer NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX suspect_order ON holdfast.suspect (queue, rank, run_at_ms, run);

-- What a run waits for, or waited for, in order. blocker: the run of the chain's first job. state: NULL while it is
-- open; then how it ended, or `abandoned` when the run was over first. The outcome is copied here, so that the chain
-- itself may go.
CREATE TABLE holdfast.blocker (
    run        bigint  NOT NULL,
    place      integer NOT NULL,
    queue      text    NOT NULL,
    id         text    NOT NULL,
    blocker    bigint,
    state      text,
    last_queue text,
    last_task  text,
    error      bytea,
    result     bytea,
    PRIMARY KEY (run, place)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX blocker_open ON holdfast.blocker (blocker) WHERE state IS NULL;
CREATE INDEX blocker_odd ON holdfast.blocker (run)
    WHERE state NOT IN ('completed', 'failed', 'cancelled', 'abandoned') OR blocker IS NULL AND state IS NULL;

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

-- How many jobs each queue has in each state: `tally` and what `move` adds to it. Every transaction leaves its own rows
-- in `move`, so that no call waits for another; `fold_moves` adds them up. was, state: NULL for a job that was not, or is no more, there.
CREATE TABLE holdfast.tally (
    queue text   NOT NULL,
    state text   NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (queue, state)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE holdfast.move (
    queue text   NOT NULL,
    was   text,
    state text,
    count bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- What could not be read, set aside: for `reap` to report it once, and for `doctor`. The newest are kept.
CREATE TABLE holdfast.corrupt (
    number bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms  bigint  NOT NULL,
    kind   text    NOT NULL,
    queue  text    NOT NULL,
    id     text    NOT NULL,
    run    bigint  NOT NULL,
    detail text    NOT NULL,
    told   boolean NOT NULL DEFAULT false
);
CREATE INDEX corrupt_untold ON holdfast.corrupt (number) WHERE NOT told;

-- The jobs of one `enqueue`, on their way between functions: arrays of the same length, or NULL for nothing but NULLs.
CREATE TYPE holdfast.batch AS (
    queue             text,
    ids               text[],
    task              text,      -- of all of them, where tasks is NULL
    tasks             text[],
    payloads          bytea[],
    run_ats           bigint[],
    delays            bigint[],
    priorities        integer[],
    keys              text[],
    envelopes         bytea[],
    overrides         text[],
    ttls              bigint[],
    dedups            text[],
    watchers          text[],
    blockers          text[],
    on_blocker_failed text[],
    updates           boolean,
    requeues          boolean,
    update_payload    boolean,
    update_run_at     text,
    reset_counts      boolean
);

-- One settlement, on its way between functions. kind: the transition. data: the result, or the error. run_at, delay: when
-- it runs again, where that was said. company: of a stall, how many jobs ran there. next: the next job of its chain.
CREATE TYPE holdfast.settlement AS (
    kind       text,
    queue      text,
    id         text,
    run        bigint,
    attempt    integer,
    data       bytea,
    ttl        bigint,
    run_at     bigint,
    delay      bigint,
    cause      text,
    company    integer,
    error_type text,
    signature  text,
    next       text
);

-- trimmed, trimmed_xid: the last event that was removed, and the last transaction of which one was. folding: locked by the one
-- call that adds up moves.
CREATE TABLE holdfast.meta (name text PRIMARY KEY, value text NOT NULL);
INSERT INTO holdfast.meta (name, value)
VALUES ('schema', '1'), ('trimmed', '0'), ('trimmed_xid', '0'), ('folding', ''),
    ('epoch', replace(gen_random_uuid()::text, '-', ''));
