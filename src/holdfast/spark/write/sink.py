"""`df.write.format("holdfast")` and `writeStream`: one job for each row, and no row twice.

A job's id comes from a column, or from the write's name and the row itself, so a Spark task that is killed, retried or
run twice finds its own jobs in the store. They are held with their results for longer than a write takes (`hold`); once
the write is committed, they are kept for as long as other jobs are.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ...errors import ConfigError
from ...store import Store, open_store
from ...store.contract import KEEP, Answer, NewJob
from ..app_code import app_in_executor
from ..store_url import require_machine
from .check import checked, task_of
from .chunks import chunks, chunks_by_id
from .file_lock import FileLock
from .hold import keep_runs
from .options import WriteOptions, parse_options
from .report import Tally, WriteReport, checksum, find_report, keep_report, sum_checksums, sum_reports
from .rows import RowEncoder

T = TypeVar("T")


@dataclass
class TaskCommit(WriterCommitMessage):
    """What one Spark task did. `skipped` says that its batch had been committed before."""

    report: WriteReport
    skipped: bool = False


Commits = Sequence[TaskCommit | None]
"""What the tasks of a write sent to the driver; `None` for one that failed."""


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch: the stream's query, by the id in its checkpoint, and its number."""

    query: str
    number: int


class Sink(DataSourceArrowWriter):
    """Write the rows of a DataFrame."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = _checked(options, schema, overwrite)
        self._name = self._options.name or f"write-{uuid4().hex[:16]}"
        self._options = replace(self._options, name=self._name)
        # The driver will commit, so it must reach the store as well: better to fail now, before a row is written.
        asyncio.run(_with_store(self._options, lambda store: store.now_ms()))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Enqueue the rows of one partition."""
        return asyncio.run(_write(self._options, self._name, None, iterator))

    def commit(self, messages: Commits) -> None:
        """Keep the report of the write, and end its hold."""
        report = sum_reports(self._name, [message.report for message in messages if message])
        asyncio.run(_with_store(self._options, lambda store: _close(store, self._options, report)))

    def abort(self, messages: Commits) -> None:
        """Leave enqueued jobs as they are: the same write, tried again, finds them."""


class StreamSink(DataSourceStreamArrowWriter):
    """Write the batches of a stream. Its name is that of the query, unless one is given."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._options = _checked(options, schema, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Enqueue the rows of one partition of a batch, unless the batch was committed before."""
        context = TaskContext.get()
        assert context is not None
        query = str(context.getLocalProperty("sql.streaming.queryId"))
        batch = int(str(context.getLocalProperty("streaming.sql.batchId")))
        return asyncio.run(_write(self._options, self._options.name or query, MicroBatch(query, batch), iterator))

    def commit(self, messages: Commits, batchId: int) -> None:
        """Count the batch in the stream's report, so that it is skipped if Spark brings it again."""
        found = [message for message in messages if message]
        if not found:
            return
        report = sum_reports(found[0].report.name, [message.report for message in found])
        if any(message.skipped for message in found):
            asyncio.run(_with_store(self._options, lambda store: _check_again(store, report, batchId)))
        else:
            asyncio.run(_with_store(self._options, lambda store: _add_batch(store, self._options, report, batchId)))

    def abort(self, messages: Commits, batchId: int) -> None:
        """Leave enqueued jobs as they are: the same batch, tried again, finds them."""


def _checked(options: Mapping[str, str], schema: StructType, overwrite: bool) -> WriteOptions:
    if overwrite:
        raise ConfigError('mode("overwrite"): a queue is not overwritten; use mode("append")')
    return checked(parse_options(options), schema)


async def _close(store: Store, options: WriteOptions, report: WriteReport) -> None:
    await keep_report(store, report, keep_ms=options.hold_ms)
    if options.until == "commit":
        await keep_runs(store, report, options.result_ttl_ms)


async def _add_batch(store: Store, options: WriteOptions, report: WriteReport, batch: int) -> None:
    """Add a batch to the report of its stream, once."""
    before = await find_report(store, report.name)
    if before is not None and before.batch is not None and before.batch >= batch:
        return
    whole = sum_reports(report.name, [before, report] if before else [report])
    whole.batch, whole.open, whole.runs, whole.checksum = batch, [], [], report.checksum
    await keep_report(store, whole, keep_ms=None)
    if options.until == "commit":
        await keep_runs(store, report, options.result_ttl_ms)


async def _check_again(store: Store, report: WriteReport, batch: int) -> None:
    """Raise when a batch that was skipped, as it had been written before, has other rows than it had then."""
    before = await find_report(store, report.name)
    if before is not None and before.batch == batch and before.checksum not in (0, report.checksum):
        raise ConfigError(
            f"write {report.name!r}: batch {batch} was written before, with other rows: its checkpoint was put back "
            "or its source has changed; give the stream another name, and a new checkpoint"
        )


async def _write(
    options: WriteOptions, name: str, batch: MicroBatch | None, batches: Iterator[pa.RecordBatch]
) -> TaskCommit:
    require_machine(options.url, options.machine)
    task = task_of(app_in_executor(options.app, options.folder), options) if options.app else None
    rows = RowEncoder(options, name if batch is None else f"{name}:{batch.number}", task)

    async def fill(store: Store) -> TaskCommit:
        if batch is not None and await _is_committed(store, name, batch):
            sums = [checksum(job.id for job in rows.jobs(each)) for each in batches]
            return TaskCommit(WriteReport(name=name, checksum=sum_checksums(sums)), skipped=True)
        jobs = itertools.chain.from_iterable(rows.jobs(each) for each in batches)
        cut = chunks_by_id if options.to_file else chunks
        tally = Tally(name, options.queue, with_checksum=batch is not None)
        report = await _enqueue(store, options, tally, cut(jobs, options.chunk_size))
        report.query = None if batch is None else batch.query
        return TaskCommit(report)

    return await _with_store(options, fill)


async def _is_committed(store: Store, name: str, batch: MicroBatch) -> bool:
    """Return whether the batch was committed before; raise when another query has written under this name."""
    report = await find_report(store, name)
    if report is None or report.batch is None:
        return False
    if report.query not in (None, batch.query):
        raise ConfigError(
            f"write {name!r}: a stream of that name, with another checkpoint, has written up to batch {report.batch}; "
            "go on with its checkpoint, or give this one another name"
        )
    if batch.number < report.batch:  # Spark itself repeats no batch but the last
        raise ConfigError(
            f"write {name!r}: its checkpoint was put back: it brings batch {batch.number}, and has written up to batch "
            f"{report.batch}; rows may be in other batches now than then, so give it another name, and a new checkpoint"
        )
    return batch.number == report.batch


async def _enqueue(store: Store, options: WriteOptions, tally: Tally, parts: Iterator[Sequence[NewJob]]) -> WriteReport:
    """Enqueue all chunks. While one is written, the next is encoded."""
    writing: asyncio.Task[list[Answer]] | None = None
    lock = FileLock(options.url)

    async def put(chunk: Sequence[NewJob]) -> list[Answer]:
        async with lock.locked():
            return await store.enqueue(options.queue, chunk, KEEP)

    try:
        for chunk in parts:
            if writing is not None:
                tally.add(await writing)
            writing = asyncio.create_task(put(chunk))
            await asyncio.sleep(0)
    finally:
        if writing is not None:
            tally.add(await writing)
        lock.close()
    return tally.report()


async def _with_store(options: WriteOptions, work: Callable[[Store], Awaitable[T]]) -> T:
    store = open_store(options.url)
    await store.open()
    try:
        return await work(store)
    finally:
        await store.close()
