"""`df.write.format("holdfast")` and `writeStream`: one job for each row, and no row twice.

An id comes from a column, or from the write's name and the row itself; so a Spark task that is killed, retried or run
twice finds its own jobs there. They are held, results and all, for longer than a write takes (`hold`), and from the
commit on for as long as others are.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ..bulk import MOST_BYTES
from ..errors import ConfigError
from ..store import Store, open_store
from ..store.contract import KEEP, Answer, NewJob
from .fit import fitted, task_of
from .option import require_machine
from .order import Order, read_options
from .place import app_in_executor
from .release import release_runs
from .report import Tally, WriteReport, keep_report, kept_report, summed
from .row import Rows
from .turn import Turns

T = TypeVar("T")


@dataclass
class Written(WriterCommitMessage):
    """What one Spark task did. A batch that was committed before is skipped."""

    report: WriteReport
    skipped: bool = False


@dataclass(frozen=True)
class Batch:
    """One micro-batch: the stream's query, by the id in its checkpoint, and the number."""

    query: str
    number: int


class Sink(DataSourceArrowWriter):
    """Writes the rows of a DataFrame."""

    def __init__(self, options: Any, schema: StructType, overwrite: bool) -> None:
        self._order = _ordered(options, schema, overwrite)
        if self._order.name is None:
            self._order = replace(self._order, name=f"write-{uuid4().hex[:16]}")
        # The driver will commit, so it must reach the store as well: that is told now, while no row is written yet.
        asyncio.run(_with_store(self._order, lambda store: store.now_ms()))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """The rows of one partition are jobs in the store."""
        assert self._order.name is not None
        return asyncio.run(_write(self._order, self._order.name, None, iterator))

    def commit(self, messages: list[Any]) -> None:
        """The write is over, and its report can be asked for."""
        assert self._order.name is not None
        report = summed(self._order.name, [message.report for message in messages if message])
        asyncio.run(_with_store(self._order, lambda store: _close(store, self._order, report)))

    def abort(self, messages: list[Any]) -> None:
        """What is in stays: the same write, tried again, finds it there."""


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the batches of a stream. Its name is that of the query, unless it is given."""

    def __init__(self, options: Any, schema: StructType, overwrite: bool) -> None:
        self._order = _ordered(options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """The rows of one partition of a batch are jobs in the store, unless the batch was committed before."""
        context = TaskContext.get()
        assert context is not None
        query = str(context.getLocalProperty("sql.streaming.queryId"))
        batch = int(str(context.getLocalProperty("streaming.sql.batchId")))
        return asyncio.run(_write(self._order, self._order.name or query, Batch(query, batch), iterator))

    def commit(self, messages: list[Any], batchId: int) -> None:
        """The batch will be skipped if Spark brings it again."""
        parts = [message.report for message in messages if message and not message.skipped]
        if parts:
            report = summed(parts[0].name, parts)
            asyncio.run(_with_store(self._order, lambda store: _add_batch(store, self._order, report, batchId)))

    def abort(self, messages: list[Any], batchId: int) -> None:
        """What is in stays: the same batch, tried again, finds it there."""


def _ordered(options: Any, schema: StructType, overwrite: bool) -> Order:
    if overwrite:
        raise ConfigError('mode("overwrite"): a queue is not overwritten; use mode("append")')
    return fitted(Order(**read_options(dict(options))), schema)


async def _close(store: Store, order: Order, report: WriteReport) -> None:
    """The write's report is kept, and its jobs are as others are."""
    await keep_report(store, report, keep_ms=order.hold_ms)
    if order.until == "commit":
        await release_runs(store, report, order.result_ttl_ms)


async def _add_batch(store: Store, order: Order, report: WriteReport, batch: int) -> None:
    """The report of the stream counts the batch, once, and says that it is over."""
    before = await kept_report(store, report.name)
    if before is not None and before.batch is not None and before.batch >= batch:
        return
    whole = summed(report.name, [before, report] if before else [report])
    whole.batch, whole.open, whole.runs = batch, [], []
    await keep_report(store, whole, keep_ms=None)
    if order.until == "commit":
        await release_runs(store, report, order.result_ttl_ms)


async def _write(order: Order, name: str, batch: Batch | None, batches: Iterator[pa.RecordBatch]) -> Written:
    require_machine(order.url, order.machine)
    task = task_of(app_in_executor(order.app, order.folder), order) if order.app else None
    rows = Rows(order, name if batch is None else f"{name}:{batch.number}", task)

    async def fill(store: Store) -> Written:
        if batch is not None and await _is_over(store, name, batch):
            for _ in batches:  # Spark expects them to be read
                pass
            return Written(WriteReport(name=name), skipped=True)
        report = await _enqueue(store, order, name, rows, batches)
        report.query = None if batch is None else batch.query
        return Written(report)

    return await _with_store(order, fill)


async def _is_over(store: Store, name: str, batch: Batch) -> bool:
    """True for a batch that was committed before. The batches of another query have nothing to do with it."""
    report = await kept_report(store, name)
    if report is None or report.batch is None:
        return False
    if report.query not in (None, batch.query):
        raise ConfigError(
            f"write {name!r}: a stream of that name, with another checkpoint, has written up to batch {report.batch}; "
            "go on with its checkpoint, or give this one another name"
        )
    return batch.number <= report.batch


async def _enqueue(store: Store, order: Order, name: str, rows: Rows, batches: Iterator[pa.RecordBatch]) -> WriteReport:
    """Every row is a job in the store. While one chunk is written, the next is encoded."""
    tally = Tally(name, order.queue)
    writing: asyncio.Task[list[Answer]] | None = None
    turns = Turns(order.url)

    async def put(chunk: Sequence[NewJob]) -> list[Answer]:
        async with turns.turn():
            return await store.enqueue(order.queue, chunk, KEEP)

    try:
        for chunk in _chunks(rows, batches, order.chunk_size):
            if writing is not None:
                tally.add(await writing)
            writing = asyncio.create_task(put(chunk))
            await asyncio.sleep(0)
    finally:
        if writing is not None:
            tally.add(await writing)
        turns.close()
    return tally.report()


def _chunks(rows: Rows, batches: Iterator[pa.RecordBatch], size: int) -> Iterator[Sequence[NewJob]]:
    """Yield chunks of so many jobs; of fewer, where these have more bytes than one call of a store should carry."""
    chunk: list[NewJob] = []
    filled = 0
    for job in itertools.chain.from_iterable(rows.jobs(batch) for batch in batches):
        chunk.append(job)
        filled += len(job.payload)
        if len(chunk) >= size or filled >= MOST_BYTES:
            yield chunk
            chunk, filled = [], 0
    if chunk:
        yield chunk


async def _with_store(order: Order, work: Callable[[Store], Awaitable[T]]) -> T:
    store = open_store(order.url)
    await store.open()
    try:
        return await work(store)
    finally:
        await store.close()
