"""The tables that Spark sees: every column, its type, and what it means."""

from __future__ import annotations

from typing import Literal, get_args

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

Table = Literal["events", "jobs", "results"]
TABLES: tuple[Table, ...] = get_args(Table)

_TEXT, _WHOLE, _COUNT, _TIME, _BYTES = StringType(), LongType(), IntegerType(), TimestampType(), BinaryType()
_WORDS = ArrayType(_TEXT, False)


def _must(name: str, type: DataType, meaning: str) -> StructField:
    return StructField(name, type, False, {"comment": meaning})


def _may(name: str, type: DataType, meaning: str) -> StructField:
    return StructField(name, type, True, {"comment": meaning})


ERROR = StructType(
    [
        _must("type", _TEXT, "the exception's class"),
        _must("message", _TEXT, "its message"),
        _must("kind", _TEXT, "failure, timeout, stall, …"),
        _must("traceback", _TEXT, "where it was raised, capped"),
        _must("fields", _TEXT, "the exception's own fields, as JSON"),
    ]
)
"""What an attempt that went wrong leaves behind."""

CHAIN = StructType(
    [
        _must("queue", _TEXT, "the queue of its first job"),
        _must("id", _TEXT, "the id of its first job"),
        _must("run", _WHOLE, "the run of its first job"),
    ]
)
"""A chain, known by its first job."""

_JOB = [
    _must("queue", _TEXT, "its queue"),
    _must("id", _TEXT, "its id"),
    _must("run", _WHOLE, "which run of this id, numbered by the store"),
]
_CHAIN_STATE = "of a first job that continued: active while its chain is open, then how the chain ended"
_COUNTERS = [
    _must("failures", _COUNT, "how often its handler raised"),
    _must("stalls", _COUNT, "how often its worker vanished"),
    _must("timeouts", _COUNT, "how often it ran out of time"),
    _must("releases", _COUNT, "how often it was released"),
]

EVENTS = StructType(
    [
        _must("epoch", _TEXT, "which log: another one after the log was lost"),
        _must(
            "sequence", _WHOLE, "the event's number; queue, epoch and sequence name an event, and order those of a job"
        ),
        _must("at", _TIME, "when it happened, by the store's clock"),
        *_JOB,
        _must("attempt", _COUNT, "how often the run had been started"),
        _must("transition", _TEXT, "what happened"),
        _may("state", _TEXT, "the state afterwards; null when the run is gone"),
        _may("cause", _TEXT, "why an attempt or a job ended"),
        _may("task", _TEXT, "its task"),
        _may("worker", _TEXT, "the session that held it"),
        _may("key", _TEXT, "its concurrency key"),
        _must("priority", _COUNT, "its priority"),
        _may("run_at", _TIME, "when it may run"),
        *_COUNTERS,
        _may("wait_ms", _WHOLE, "from the time it could have run to its claim; set by claim"),
        _may("run_ms", _WHOLE, "from its claim to the end of the attempt; set by what ends an attempt"),
        _may("error_type", _TEXT, "the exception's class"),
        _may("error_signature", _TEXT, "the same for errors of the same kind from the same place"),
        _may("progress", DoubleType(), "the fraction that the handler reported; set by progress"),
        _may("message", _TEXT, "the text that the handler reported; of operate, what was changed, as JSON"),
        _may("payload", _BYTES, "the arguments; kept only by queues with history=payloads"),
        _must("tags", _WORDS, "the job's tags; set by enqueue, update and requeue, else empty"),
        _may("actor", _TEXT, "who asked for it, if they said so"),
        _may("missing", _WHOLE, "of the transition gap: how many events are missing; null when that is not known"),
    ]
)
"""One row for each transition of a run, and for each action of an operator (`operate`)."""

JOBS = StructType(
    [
        *_JOB,
        _may("task", _TEXT, "its task"),
        _must("state", _TEXT, "its state"),
        _must("priority", _COUNT, "its priority"),
        _may("key", _TEXT, "its concurrency key"),
        _must("run_at", _TIME, "when it may run, or could have"),
        _must("enqueued_at", _TIME, "when it was enqueued"),
        _may("started_at", _TIME, "when its last attempt began"),
        _may("finished_at", _TIME, "when it was finished"),
        _may("expires_at", _TIME, "when a finished run is removed"),
        _must("attempts", _COUNT, "how often it was started"),
        *_COUNTERS,
        _may("worker", _TEXT, "the session that holds it"),
        _must("holds_id", BooleanType(), "whether this run answers for its id"),
        _must("cancel_requested", BooleanType(), "whether its handler was told to stop"),
        _must("successor", BooleanType(), "whether another dispatch of its id waits for it to end"),
        _may("chain", CHAIN, "its chain; null for a job that neither continued nor continues another"),
        _must("position", _COUNT, "its place in its chain: 0 is the first job"),
        _may("chain_state", _TEXT, _CHAIN_STATE),
        _must("blockers", _COUNT, "how many of the chains that it waits for are still open"),
        _may("progress", DoubleType(), "the fraction that the handler reported"),
        _may("message", _TEXT, "the text that the handler reported"),
        _may("error", ERROR, "what its last attempt left, when that went wrong"),
        _must("headers", MapType(_TEXT, _TEXT, False), "what its caller sent along"),
        _must("tags", _WORDS, "the words that its caller gave it"),
        _must("payload", _BYTES, "the arguments, as they were encoded"),
        _may("checkpoint", _BYTES, "what its handler saved"),
        _may("result", _BYTES, "what its handler returned, as it was encoded"),
    ]
)
"""One row for each run that the store keeps."""

RESULTS = StructType(
    [
        *_JOB,
        _may("task", _TEXT, "its task"),
        _must("state", _TEXT, "completed, failed or cancelled"),
        _may("chain_state", _TEXT, _CHAIN_STATE),
        _may("key", _TEXT, "its concurrency key"),
        _must("enqueued_at", _TIME, "when it was enqueued"),
        _may("started_at", _TIME, "when its last attempt began"),
        _must("finished_at", _TIME, "when it was finished"),
        _may("expires_at", _TIME, "when it is removed"),
        _must("attempts", _COUNT, "how often it was started"),
        _may("result", _BYTES, "what its handler or its chain returned, as it was encoded; null unless completed"),
        _may("error", ERROR, "what its last attempt left, when that went wrong"),
    ]
)
"""One row for each finished run that the store keeps."""

SCHEMAS: dict[Table, StructType] = {"events": EVENTS, "jobs": JOBS, "results": RESULTS}
