-- One row for each run. The row that answers for an id is the one with held = 1.
-- chain: the run of its chain's first job, NULL for a job that neither continued nor continues another.
-- Of a first job that continued: chain_state (open, then how it ended), ended_at_ms, and tail, the run of the chain's
-- latest job. blockers: how many are open, NULL for a job that never had any.
-- company: of a job that stalled, at most so many jobs may run where it is tried next, itself included; else NULL.
-- snoozes: how often its handler asked to run later. spared: how many of its attempts do not count towards the cap on
-- all of them, because they were handed back free of charge, or an update reset the counts.
-- envelope: what travels with the job (core.envelope), never read here but for lists by tag and by `fail`.
-- signature: of the last error of a job that failed, or is failing.
CREATE TABLE holdfast_job (
    run              INTEGER PRIMARY KEY,
    queue            TEXT    NOT NULL,
    id               TEXT    NOT NULL,
    state            TEXT    NOT NULL,
    held             INTEGER NOT NULL DEFAULT 1,
    task             TEXT,
    priority         INTEGER NOT NULL DEFAULT 0,
    key              TEXT,
    run_at_ms        INTEGER NOT NULL,
    ready_at_ms      INTEGER NOT NULL,
    enqueued_at_ms   INTEGER NOT NULL,
    claimed_at_ms    INTEGER,
    finished_at_ms   INTEGER,
    free_at_ms       INTEGER,
    expires_at_ms    INTEGER,
    attempts         INTEGER NOT NULL DEFAULT 0,
    failures         INTEGER NOT NULL DEFAULT 0,
    stalls           INTEGER NOT NULL DEFAULT 0,
    timeouts         INTEGER NOT NULL DEFAULT 0,
    releases         INTEGER NOT NULL DEFAULT 0,
    session          TEXT,
    exit             TEXT,
    last_session     TEXT,
    last_exit        TEXT,
    cancel           INTEGER NOT NULL DEFAULT 0,
    absorbed_to      INTEGER,
    requeued_as      INTEGER,
    result_ttl_ms    INTEGER,
    dedup_key        TEXT,
    dedup_until_ms   INTEGER,
    progressed_at_ms INTEGER,
    chain            INTEGER,
    position         INTEGER NOT NULL DEFAULT 0,
    chain_state      TEXT,
    ended_at_ms      INTEGER,
    tail             INTEGER,
    blockers         INTEGER,
    on_blocker_failed TEXT,
    company          INTEGER,
    snoozes          INTEGER NOT NULL DEFAULT 0,
    spared           INTEGER NOT NULL DEFAULT 0,
    progress         BLOB,
    checkpoint       BLOB,
    overrides        BLOB,
    envelope         BLOB,
    signature        TEXT,
    error            BLOB,
    result           BLOB,
    payload          BLOB    NOT NULL
);
CREATE UNIQUE INDEX holdfast_job_id ON holdfast_job (queue, id) WHERE held = 1;
CREATE INDEX holdfast_job_past ON holdfast_job (queue, id, run) WHERE held = 0;
CREATE INDEX holdfast_job_waiting ON holdfast_job (queue, key, company, priority DESC, run_at_ms, run)
    WHERE state = 'waiting';
-- Suspects have an order of their own.
CREATE INDEX holdfast_job_suspect ON holdfast_job (queue, priority DESC, run_at_ms, run)
    WHERE state = 'waiting' AND company IS NOT NULL;
-- Which job with a key has waited longest.
CREATE INDEX holdfast_job_aged ON holdfast_job (queue, run_at_ms, run) WHERE state = 'waiting' AND key IS NOT NULL;
CREATE INDEX holdfast_job_scheduled ON holdfast_job (queue, run_at_ms, run) WHERE state = 'scheduled';
CREATE INDEX holdfast_job_active ON holdfast_job (queue, key, run) WHERE state = 'active';
-- A finished job is in one of these two: completed ones apart, since they are listed by it.
CREATE INDEX holdfast_job_completed ON holdfast_job (queue, expires_at_ms) WHERE state = 'completed';
CREATE INDEX holdfast_job_expiry ON holdfast_job (queue, expires_at_ms)
    WHERE expires_at_ms IS NOT NULL AND state <> 'completed';
CREATE INDEX holdfast_job_failed ON holdfast_job (queue, run) WHERE state = 'failed';
-- One for two states: each index that is judged for every job costs a hundredth of its time.
CREATE INDEX holdfast_job_rare ON holdfast_job (queue, state, run) WHERE state = 'blocked' OR state = 'cancelled';
CREATE INDEX holdfast_job_signature ON holdfast_job (signature, run) WHERE signature IS NOT NULL;
CREATE INDEX holdfast_job_dedup ON holdfast_job (queue, task, dedup_key, run) WHERE dedup_key IS NOT NULL;
CREATE INDEX holdfast_job_chain ON holdfast_job (chain, position) WHERE chain IS NOT NULL;
CREATE INDEX holdfast_job_chains ON holdfast_job (run) WHERE chain_state IS NOT NULL;
-- Jobs in a state that there is not, which no call fails on, and `reap` must find. Each change of a job's state is judged
-- by this condition: a list (NOT IN) would be built anew for each statement, a fifth of the time of a turn.
CREATE INDEX holdfast_job_stateless ON holdfast_job (run)
    WHERE state <> 'waiting' AND state <> 'active' AND state <> 'completed' AND state <> 'scheduled'
        AND state <> 'failed' AND state <> 'blocked' AND state <> 'cancelled';

-- The next dispatch of an id whose run is active. It has its run number from the start.
CREATE TABLE holdfast_successor (
    queue          TEXT    NOT NULL,
    id             TEXT    NOT NULL,
    run            INTEGER NOT NULL,
    task           TEXT,
    priority       INTEGER NOT NULL,
    key            TEXT,
    run_at_ms      INTEGER NOT NULL,
    enqueued_at_ms INTEGER NOT NULL,
    update_payload INTEGER NOT NULL,
    update_run_at  TEXT    NOT NULL,
    reset_counts   INTEGER NOT NULL,
    result_ttl_ms  INTEGER,
    dedup_key      TEXT,
    dedup_until_ms INTEGER,
    overrides      BLOB,
    envelope       BLOB,
    payload        BLOB    NOT NULL,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;

CREATE INDEX holdfast_successor_dedup ON holdfast_successor (queue, task, dedup_key) WHERE dedup_key IS NOT NULL;

-- declared: what workers say; operator: what people set above it. The revision tells caches apart.
CREATE TABLE holdfast_queue (
    name          TEXT PRIMARY KEY,
    revision      INTEGER NOT NULL DEFAULT 0,
    version       INTEGER NOT NULL DEFAULT 0,
    declared      BLOB    NOT NULL DEFAULT '{}',
    operator      BLOB    NOT NULL DEFAULT '{}',
    turn          INTEGER NOT NULL DEFAULT 0,
    keyless_turn  INTEGER NOT NULL DEFAULT 0,
    tokens        REAL,
    tokens_at_ms  INTEGER
) WITHOUT ROWID;

CREATE TABLE holdfast_policy (
    queue    TEXT    NOT NULL,
    task     TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    declared BLOB    NOT NULL,
    PRIMARY KEY (queue, task)
) WITHOUT ROWID;

-- What operators set of a task, above what its workers declare.
CREATE TABLE holdfast_adjustment (
    queue    TEXT NOT NULL,
    task     TEXT NOT NULL,
    operator BLOB NOT NULL,
    PRIMARY KEY (queue, task)
) WITHOUT ROWID;

-- One row for each key that has jobs (or, cooling, a bucket that is not full again before ready_at_ms).
CREATE TABLE holdfast_lane (
    queue        TEXT    NOT NULL,
    key          TEXT    NOT NULL,
    turn         INTEGER NOT NULL,
    ready        INTEGER NOT NULL DEFAULT 0,
    ready_at_ms  INTEGER,
    cooling      INTEGER NOT NULL DEFAULT 0,
    tokens       REAL,
    tokens_at_ms INTEGER,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;
CREATE INDEX holdfast_lane_ready ON holdfast_lane (queue, turn) WHERE ready = 1;
CREATE INDEX holdfast_lane_timed ON holdfast_lane (queue, ready_at_ms) WHERE ready_at_ms IS NOT NULL AND cooling = 0;
CREATE INDEX holdfast_lane_cooling ON holdfast_lane (queue, ready_at_ms) WHERE cooling = 1;

CREATE TABLE holdfast_key_limit (
    queue       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    concurrency INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) WITHOUT ROWID;

-- A worker in each queue that it serves. parked: the room it waits to fill, or NULL. command: what it is told to do.
CREATE TABLE holdfast_session (
    queue         TEXT    NOT NULL,
    id            TEXT    NOT NULL,
    info          BLOB    NOT NULL,
    started_at_ms INTEGER NOT NULL,
    heard_at_ms   INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    dead          INTEGER NOT NULL DEFAULT 0,
    parked        INTEGER,
    address       TEXT,
    memory_bytes  INTEGER,
    command       TEXT,
    PRIMARY KEY (queue, id)
) WITHOUT ROWID;
CREATE INDEX holdfast_session_parked ON holdfast_session (queue, heard_at_ms) WHERE parked IS NOT NULL;

-- Handlers that must be told to stop.
CREATE TABLE holdfast_abort (
    session TEXT    NOT NULL,
    run     INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    queue   TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    reason  TEXT    NOT NULL,
    PRIMARY KEY (session, run, attempt)
) WITHOUT ROWID;

-- Callers that wait for a run to end.
CREATE TABLE holdfast_watch (
    queue   TEXT    NOT NULL,
    id      TEXT    NOT NULL,
    run     INTEGER NOT NULL,
    address TEXT    NOT NULL,
    PRIMARY KEY (queue, id, run, address)
) WITHOUT ROWID;

-- First answers, for calls that are repeated because their reply was lost.
CREATE TABLE holdfast_request (
    id     TEXT PRIMARY KEY,
    at_ms  INTEGER NOT NULL,
    answer BLOB    NOT NULL
) WITHOUT ROWID;
CREATE INDEX holdfast_request_age ON holdfast_request (at_ms);

CREATE TABLE holdfast_event (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms           INTEGER NOT NULL,
    queue           TEXT    NOT NULL,
    id              TEXT    NOT NULL,
    run             INTEGER NOT NULL,
    attempt         INTEGER NOT NULL,
    transition      TEXT    NOT NULL,
    state           TEXT,
    cause           TEXT,
    task            TEXT,
    worker          TEXT,
    key             TEXT,
    priority        INTEGER NOT NULL,
    run_at_ms       INTEGER,
    failures        INTEGER NOT NULL,
    stalls          INTEGER NOT NULL,
    timeouts        INTEGER NOT NULL,
    releases        INTEGER NOT NULL,
    wait_ms         INTEGER,
    run_ms          INTEGER,
    error_type      TEXT,
    error_signature TEXT,
    progress        REAL,
    message         TEXT,
    payload         BLOB,
    envelope        BLOB,
    actor           TEXT
);

-- What a run waits for, or waited for, in order. blocker: the run of the chain's first job. state: NULL while it is
-- open; then how it ended, or `abandoned` when the run was over first. The outcome is copied here, so that the chain
-- itself may go.
CREATE TABLE holdfast_blocker (
    run        INTEGER NOT NULL,
    place      INTEGER NOT NULL,
    queue      TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    blocker    INTEGER,
    state      TEXT,
    last_queue TEXT,
    last_task  TEXT,
    error      BLOB,
    result     BLOB,
    PRIMARY KEY (run, place)
) WITHOUT ROWID;
CREATE INDEX holdfast_blocker_open ON holdfast_blocker (blocker) WHERE state IS NULL;

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

-- How many jobs each queue has in each state; every statement that changes a state says so (`Tx.moved`).
CREATE TABLE holdfast_tally (
    queue TEXT    NOT NULL,
    state TEXT    NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (queue, state)
) WITHOUT ROWID;

-- What could not be read, set aside: for `reap` to tell of it once, and for `doctor`. The newest 1,000 are kept.
CREATE TABLE holdfast_corrupt (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms  INTEGER NOT NULL,
    kind   TEXT    NOT NULL,
    queue  TEXT    NOT NULL,
    id     TEXT    NOT NULL,
    run    INTEGER NOT NULL,
    detail TEXT    NOT NULL,
    told   INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX holdfast_corrupt_untold ON holdfast_corrupt (number) WHERE told = 0;

-- run: the last run number given out. heard_at_ms: when any session was last heard.
CREATE TABLE holdfast_meta (
    name  TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;
INSERT INTO holdfast_meta (name, value)
VALUES ('schema', 1), ('run', 0), ('heard_at_ms', 0), ('epoch', lower(hex(randomblob(8))));

-- Rows that hide jobs when they hold what is never written, and that `reap` must find: the conditions are those of
-- `columns.unreadable_type`.
CREATE INDEX holdfast_lane_unreadable ON holdfast_lane (queue)
    WHERE (typeof(queue) <> 'text')
        OR (typeof(key) <> 'text')
        OR (typeof(turn) <> 'integer' OR turn NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(ready) <> 'integer' OR ready NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (ready_at_ms IS NOT NULL AND (typeof(ready_at_ms) <> 'integer' OR ready_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992))
        OR (typeof(cooling) <> 'integer' OR cooling NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (tokens IS NOT NULL AND (typeof(tokens) NOT IN ('real', 'integer') OR abs(tokens) > 1e300))
        OR (tokens_at_ms IS NOT NULL AND (typeof(tokens_at_ms) <> 'integer' OR tokens_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992));
CREATE INDEX holdfast_key_limit_unreadable ON holdfast_key_limit (queue)
    WHERE (typeof(queue) <> 'text')
        OR (typeof(key) <> 'text')
        OR (typeof(concurrency) <> 'integer' OR concurrency NOT BETWEEN -9007199254740992 AND 9007199254740992);
CREATE INDEX holdfast_session_unreadable ON holdfast_session (queue)
    WHERE (typeof(queue) <> 'text')
        OR (typeof(id) <> 'text')
        OR (typeof(info) NOT IN ('blob', 'text'))
        OR (typeof(started_at_ms) <> 'integer' OR started_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(heard_at_ms) <> 'integer' OR heard_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(expires_at_ms) <> 'integer' OR expires_at_ms NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(dead) <> 'integer' OR dead NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (parked IS NOT NULL AND (typeof(parked) <> 'integer' OR parked NOT BETWEEN -9007199254740992 AND 9007199254740992))
        OR (address IS NOT NULL AND (typeof(address) <> 'text'))
        OR (memory_bytes IS NOT NULL AND (typeof(memory_bytes) <> 'integer' OR memory_bytes NOT BETWEEN -9007199254740992 AND 9007199254740992))
        OR (command IS NOT NULL AND (typeof(command) <> 'text'));
CREATE INDEX holdfast_blocker_unreadable ON holdfast_blocker (queue)
    WHERE (typeof(run) <> 'integer' OR run NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(place) <> 'integer' OR place NOT BETWEEN -9007199254740992 AND 9007199254740992)
        OR (typeof(queue) <> 'text')
        OR (typeof(id) <> 'text')
        OR (blocker IS NOT NULL AND (typeof(blocker) <> 'integer' OR blocker NOT BETWEEN -9007199254740992 AND 9007199254740992))
        OR (state IS NOT NULL AND (typeof(state) <> 'text' OR state NOT IN ('blocked', 'scheduled', 'waiting', 'active', 'completed', 'failed', 'cancelled', 'abandoned')))
        OR (last_queue IS NOT NULL AND (typeof(last_queue) <> 'text'))
        OR (last_task IS NOT NULL AND (typeof(last_task) <> 'text'))
        OR (error IS NOT NULL AND (typeof(error) <> 'blob'))
        OR (result IS NOT NULL AND (typeof(result) <> 'blob'))
        OR (blocker IS NULL AND state IS NULL);
