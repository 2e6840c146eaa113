"""Simulated events as Arrow batches, in the schema of the lake's events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np
import pyarrow as pa

from holdfast.spark.lake.schemas import EVENTS

from .lives import CAUSES, ENQUEUE, HOSTS, NONE, STATES, TRANSITIONS, Block, events_of, queue_of, tenant_of
from .world import Numbers, World

EPOCH = "simulated"
TASKS = 5
ERRORS = ("ConnectionError", "TimeoutError", "ValueError", "KeyError", "OperationalError")
TAGGED = 20
PAGE = 50_000
LEFT_OUT = ("batch", "day")
"""Columns that the lake adds."""
_HEX = np.frombuffer(b"".join(b"%02x" % number for number in range(256)), np.uint16)


def schema() -> pa.Schema:
    """Return the columns that the log has of the lake's events."""
    return pa.schema([field for field in EVENTS.arrow if field.name not in LEFT_OUT])


def batches_between(world: World, after_ms: int, upto_ms: int) -> Iterator[pa.RecordBatch]:
    """Yield the events that are seen after one time, up to and with another, in the log's order."""
    found = events_of(world, world.jobs_between(after_ms, upto_ms))
    inside = np.flatnonzero((found["seen"] > after_ms) & (found["seen"] <= upto_ms))
    order = inside[np.argsort(found["sequence"][inside], kind="stable")]
    for start in range(0, len(order), PAGE):
        page = order[start : start + PAGE]
        yield _batch(world, {name: values[page] for name, values in found.items()})


def _batch(world: World, found: Block) -> pa.RecordBatch:
    job, queue = found["job"], queue_of(world, found["job"])
    task = queue * TASKS + world.below(job, 11, TASKS)
    made = {
        "queue": _words(queue, _queues(world.queues)),
        "id": _ids(world, job),
        "run": pa.array(job + 1),
        "transition": _words(found["transition"], TRANSITIONS),
        "state": _words(found["state"], STATES),
        "cause": _words(found["cause"], CAUSES),
        "task": _words(task, _tasks(world.queues)),
        "worker": _workers(found["worker"]),
        "key": _words(tenant_of(world, job), _tenants(world.tenants)),
        "error_type": _words(np.where(found["error"] == NONE, NONE, found["error"] // 4), ERRORS),
        "error_signature": _signatures(found["error"], task),
        "tags": _tags(world, found),
        "epoch": _words(np.zeros_like(job), (EPOCH,)),
    }  # fmt: skip
    arrays = []
    for field in schema():
        if field.name in made:
            arrays.append(made[field.name])
        elif field.name in found:
            arrays.append(_numbers(found[field.name], field.type))
        else:
            arrays.append(
                _numbers(world.below(job, 12, 3), field.type) if field.name == "priority" else _none(job, field)
            )
    return pa.RecordBatch.from_arrays(arrays, schema=schema())


def _none(job: Numbers, field: pa.Field) -> pa.Array:
    return pa.nulls(len(job), field.type)


def _numbers(values: Numbers, type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type):
        return pa.array(values * 1000).cast(type)
    return pa.array(values, mask=values == NONE).cast(type)


def _words(numbers: Numbers, words: Sequence[str]) -> pa.Array:
    indices = pa.array(numbers.astype(np.int32), mask=numbers == NONE)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string())).cast(pa.string())


@cache
def _queues(count: int) -> tuple[str, ...]:
    return tuple(f"queue-{number:04}" for number in range(count))


@cache
def _tenants(count: int) -> tuple[str, ...]:
    return tuple(f"tenant-{number:05}" for number in range(count))


@cache
def _tasks(queues: int) -> tuple[str, ...]:
    return tuple(f"jobs.queue_{number // TASKS:04}.step_{number % TASKS}" for number in range(queues * TASKS))


def _ids(world: World, job: Numbers) -> pa.Array:
    """Return 32 random hexadecimal digits for each job."""
    raw = np.stack([world.hashed(job, 13), world.hashed(job, 14)], axis=1).tobytes()
    return _fixed(_HEX[np.frombuffer(raw, np.uint8)].tobytes(), 32, len(job))


def _fixed(text: bytes, width: int, count: int) -> pa.Array:
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(text))


def _several(numbers: Numbers, spelled: str) -> pa.Array:
    """Return a text for each number, which is spelled once."""
    there, which = np.unique(numbers, return_inverse=True)
    words = [None if number == NONE else spelled.format(*divmod(int(number), HOSTS)) for number in there]
    return pa.DictionaryArray.from_arrays(pa.array(which.astype(np.int32)), pa.array(words, pa.string())).cast(
        pa.string()
    )


def _workers(numbers: Numbers) -> pa.Array:
    """Return sessions: each host has another one each day."""
    return _several(numbers, "{0:05d}-worker-{1:03d}")


def _signatures(error: Numbers, task: Numbers) -> pa.Array:
    return _several(np.where(error == NONE, NONE, task * 20 + error), "{0:08x}{1:08x}")


def _tags(world: World, found: Block) -> pa.Array:
    tagged = (found["transition"] == ENQUEUE) & (world.below(found["job"], 15, TAGGED) == 0)
    ends = np.concatenate([[0], np.cumsum(tagged)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(["bulk"] * int(ends[-1]), pa.string()))
