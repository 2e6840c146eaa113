-- One row for each run. The row that answers for an id is the one with held = 1.
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
    progress         BLOB,
    checkpoint       BLOB,
    overrides        BLOB,
    headers          BLOB,
    error            BLOB,
    result           BLOB,
    payload          BLOB    NOT NULL
);
CREATE UNIQUE INDEX holdfast_job_id ON holdfast_job (queue, id) WHERE held = 1;
CREATE INDEX holdfast_job_past ON holdfast_job (queue, id, run) WHERE held = 0;
CREATE INDEX holdfast_job_waiting ON holdfast_job (queue, key, priority DESC, run_at_ms, run)
    WHERE state = 'waiting';
CREATE INDEX holdfast_job_scheduled ON holdfast_job (queue, run_at_ms, run) WHERE state = 'scheduled';
CREATE INDEX holdfast_job_active ON holdfast_job (queue, key, run) WHERE state = 'active';
CREATE INDEX holdfast_job_expiry ON holdfast_job (queue, expires_at_ms) WHERE expires_at_ms IS NOT NULL;
CREATE INDEX holdfast_job_failed ON holdfast_job (queue, run) WHERE state = 'failed';
CREATE INDEX holdfast_job_dedup ON holdfast_job (queue, task, dedup_key, run) WHERE dedup_key IS NOT NULL;

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
    headers        BLOB,
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

-- A worker in each queue that it serves. parked: the room it waits to fill, or NULL.
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
    payload         BLOB
);

-- run: the last run number given out. heard_at_ms: when any session was last heard.
CREATE TABLE holdfast_meta (
    name  TEXT PRIMARY KEY,
    value
) WITHOUT ROWID;
INSERT INTO holdfast_meta (name, value)
VALUES ('schema', 1), ('run', 0), ('heard_at_ms', 0), ('epoch', lower(hex(randomblob(8))));
