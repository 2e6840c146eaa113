"""The tables of the lake: every column, its type, and what it means."""

from __future__ import annotations

import pyarrow as pa

from .table_schema import BYTES, COUNT, DAY, REAL, TEXT, TIME, WHOLE, WORDS, Column, TableSchema

_RUN: tuple[Column, ...] = (
    ("epoch", TEXT, "which log of the store; another one after a reset"),
    ("queue", TEXT, "the queue"),
    ("id", TEXT, "the job's id"),
    ("run", WHOLE, "which run of that id"),
)
_COUNTERS: tuple[Column, ...] = (
    ("failures", COUNT, "how often the handler raised"),
    ("stalls", COUNT, "how often its worker vanished"),
    ("timeouts", COUNT, "how often it ran out of time"),
    ("releases", COUNT, "how often it was released"),
)
_ERROR: tuple[Column, ...] = (
    ("error_type", TEXT, "the exception's class"),
    ("error_signature", TEXT, "the same for errors of one kind from one place"),
)
_SHELF: Column = ("shelf", WHOLE, "open rows: run div 16384; null for rows that are final")

EVENTS = TableSchema(
    "events",
    "bronze: every event, as it was written",
    (
        ("epoch", TEXT, "which log of the store"),
        ("sequence", WHOLE, "the event's number in it"),
        ("at", TIME, "when, by the store's clock"),
        ("queue", TEXT, "the queue"),
        ("id", TEXT, "the job's id"),
        ("run", WHOLE, "which run of that id"),
        ("attempt", COUNT, "how often the run had been started"),
        ("transition", TEXT, "what happened"),
        ("state", TEXT, "the state afterwards; null when the run is gone"),
        ("cause", TEXT, "why"),
        ("task", TEXT, "the task"),
        ("worker", TEXT, "the session that held it"),
        ("key", TEXT, "the concurrency key"),
        ("priority", COUNT, "the priority"),
        ("run_at", TIME, "when it may run"),
        *_COUNTERS,
        ("wait_ms", WHOLE, "claim: from the time it could have run"),
        ("run_ms", WHOLE, "the end of an attempt: from its claim"),
        *_ERROR,
        ("progress", REAL, "the fraction that the handler reported"),
        ("message", TEXT, "the text that the handler reported; of operate, what was changed, as JSON"),
        ("payload", BYTES, "the arguments, in queues with history=payloads"),
        ("tags", WORDS, "the job's tags; set by enqueue, update and requeue, else empty"),
        ("actor", TEXT, "who asked for it, if they said so"),
        ("batch", WHOLE, "the batch that brought it"),
        ("day", DAY, "the day of `at`"),
    ),
    ("epoch", "queue", "sequence"),
)

ATTEMPTS = TableSchema(
    "attempts",
    "silver: one row for each attempt",
    (
        *_RUN,
        ("attempt", COUNT, "its number"),
        ("task", TEXT, "the task, when it was claimed"),
        ("key", TEXT, "the concurrency key, likewise"),
        ("priority", COUNT, "the priority, likewise"),
        ("worker", TEXT, "the session that ran it"),
        ("started_at", TIME, "when it was claimed; null when that event was lost"),
        ("wait_ms", WHOLE, "how long it had waited by then"),
        ("ended_at", TIME, "when it ended; null while it runs"),
        ("run_ms", WHOLE, "how long it ran"),
        ("outcome", TEXT, "completed, retried, failed, snoozed, released, stalled, cancelled or dropped"),
        ("cause", TEXT, "why it ended so"),
        *_ERROR,
        ("day", DAY, "the day of `ended_at`; null while it runs"),
        _SHELF,
    ),
    ("epoch", "queue", "id", "run", "attempt"),
    ("day", "shelf"),
)

JOBS = TableSchema(
    "jobs",
    "silver: one row for each run",
    (
        *_RUN,
        ("task", TEXT, "the task"),
        ("key", TEXT, "the concurrency key"),
        ("priority", COUNT, "the priority"),
        ("tags", WORDS, "the tags, of the last event that set them; null when that event was lost"),
        ("state", TEXT, "the last state; `deleted` when it was removed unfinished, `gone` when its end was lost"),
        ("cause", TEXT, "why the last transition happened"),
        ("enqueued_at", TIME, "when the run was enqueued; null when that event was lost"),
        ("run_at", TIME, "when it may run, or could have"),
        ("first_started_at", TIME, "when its first attempt began"),
        ("started_at", TIME, "when its last attempt began"),
        ("finished_at", TIME, "when it was finished"),
        ("attempts", COUNT, "how often it was started"),
        *_COUNTERS,
        ("waited_ms", WHOLE, "how long it waited, over all attempts"),
        ("ran_ms", WHOLE, "how long it ran, over all attempts"),
        ("worker", TEXT, "the last session that held it"),
        *_ERROR,
        ("sequence", WHOLE, "the number of its last event"),
        ("worker_sequence", WHOLE, "the number of the event that named the worker"),
        ("error_sequence", WHOLE, "the number of the event that had the error"),
        ("tags_sequence", WHOLE, "the number of the event that set the tags"),
        ("day", DAY, "the day of `finished_at`; null until then"),
        _SHELF,
    ),
    ("epoch", "queue", "id", "run"),
    ("day", "shelf"),
)

_MINUTE: tuple[Column, ...] = (("queue", TEXT, "the queue"), ("minute", TIME, "the minute, by its beginning"))
_DAY: Column = ("day", DAY, "its day")

MINUTES = TableSchema(
    "minutes",
    "gold: each queue in each minute in which something happened",
    (
        *_MINUTE,
        ("enqueued", WHOLE, "runs that were enqueued"),
        ("started", WHOLE, "attempts that began"),
        ("ended", WHOLE, "attempts that ended"),
        ("completed", WHOLE, "runs that completed"),
        ("failed", WHOLE, "runs that failed for good"),
        ("cancelled", WHOLE, "runs that were cancelled"),
        ("retried", WHOLE, "attempts that went wrong and are tried again"),
        ("timed_out", WHOLE, "attempts that ran out of time"),
        ("stalled", WHOLE, "attempts whose worker vanished"),
        ("released", WHOLE, "attempts that were released"),
        ("snoozed", WHOLE, "attempts that were snoozed"),
        ("wait_p50_ms", REAL, "half of the attempts that began had waited no longer"),
        ("wait_p90_ms", REAL, "nine of ten"),
        ("wait_p99_ms", REAL, "99 of 100"),
        ("oldest_ms", WHOLE, "the queue's age: how long the oldest claimed job had waited"),
        ("run_p50_ms", REAL, "half of the attempts that ended had run no longer"),
        ("run_p90_ms", REAL, "nine of ten"),
        ("run_p99_ms", REAL, "99 of 100"),
        ("longest_ms", WHOLE, "the longest of them"),
        ("failure_rate", REAL, "attempts that raised or timed out, of those that ended"),
        ("retry_rate", REAL, "attempts that are tried again, of those that ended"),
        ("stall_rate", REAL, "attempts whose worker vanished, of those that ended"),
        ("keys", WHOLE, "concurrency keys of which an attempt began"),
        ("fairness", REAL, "Jain's index of the attempts begun per key: 1 is even, 1/keys is all to one"),
        ("wait_fairness", REAL, "Jain's index of the mean wait per key"),
        _DAY,
    ),
    ("queue", "minute"),
)

TENANTS = TableSchema(
    "tenants",
    "gold: each concurrency key of each queue in each minute",
    (
        *_MINUTE,
        ("key", TEXT, "the concurrency key"),
        ("started", WHOLE, "attempts that began"),
        ("ended", WHOLE, "attempts that ended"),
        ("completed", WHOLE, "runs that completed"),
        ("failed", WHOLE, "runs that failed for good"),
        ("wait_mean_ms", REAL, "the mean wait of the attempts that began"),
        ("wait_max_ms", WHOLE, "the longest of them"),
        ("ran_ms", WHOLE, "how long the attempts that ended had run, together"),
        _DAY,
    ),
    ("queue", "minute", "key"),
)

ERRORS = TableSchema(
    "errors",
    "gold: each kind of error of each queue in each minute",
    (
        *_MINUTE,
        ("error_signature", TEXT, "the same for errors of one kind from one place"),
        ("error_type", TEXT, "the exception's class"),
        ("task", TEXT, "the task"),
        ("count", WHOLE, "how often"),
        ("example", TEXT, "the id of the last job that it happened to"),
        _DAY,
    ),
    ("queue", "minute", "error_signature"),
)

WORKERS = TableSchema(
    "workers",
    "gold: each worker in each minute, from the attempts that have ended",
    (
        ("worker", TEXT, "the session"),
        ("minute", TIME, "the minute, by its beginning"),
        ("ended", WHOLE, "attempts that ended"),
        ("busy_ms", WHOLE, "the time of all its attempts in this minute; 60,000 is one slot at work throughout"),
        _DAY,
    ),
    ("worker", "minute"),
)

BATCHES = TableSchema(
    "batches",
    "what was read from the log, one row for each batch, written before it is read",
    (
        ("batch", WHOLE, "its number"),
        ("reader", TEXT, "the name under which the store keeps events for this lake"),
        ("after", TEXT, "the position after which it begins; null is the beginning of the log"),
        ("upto", TEXT, "the position with which it ends"),
        ("again", pa.bool_(), "the log was reset: it may hold events that the lake has"),
        ("planned_at", TIME, "when it was planned, by the store's clock"),
    ),
    ("batch",),
    (),
)

GAPS = TableSchema(
    "gaps",
    "what the lake lacks: events that were trimmed, or logs that were reset, before they were read",
    (
        ("batch", WHOLE, "the batch that noticed"),
        ("missing", WHOLE, "how many events were trimmed unread; null when the log was reset"),
        ("after", TEXT, "the position after which they were"),
        ("noticed_at", TIME, "when, by the store's clock"),
    ),
    ("batch",),
    (),
)

REPLAYS = TableSchema(
    "replays",
    "runs that `holdfast lake replay` has enqueued again",
    (
        *_RUN,
        ("name", TEXT, "the name of the replay"),
        ("new_id", TEXT, "the id under which it ran again"),
        ("at", TIME, "when"),
    ),
    ("epoch", "queue", "id", "run", "name"),
    (),
)

MESSAGES = TableSchema(
    "messages",
    "what errors say: a message of each kind of error of which the store had a job when the lake was run",
    (
        ("error_signature", TEXT, "the same for errors of one kind from one place"),
        ("queue", TEXT, "the queue of the job"),
        ("error_type", TEXT, "the exception's class"),
        ("message", TEXT, "its message, the first 500 characters"),
        ("id", TEXT, "the job's id"),
        ("seen_at", TIME, "when it was looked up, by the store's clock"),
    ),
    ("error_signature",),
    (),
)

LAKE_TABLES = (EVENTS, ATTEMPTS, JOBS, MINUTES, TENANTS, ERRORS, WORKERS, BATCHES, GAPS, REPLAYS, MESSAGES)
