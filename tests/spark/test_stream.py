"""The log as a stream: every event once, whatever is repeated, and a gap is never hidden."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from spark_places import KINDS, Shop, fresh, log_of

from holdfast.store.scan import open_scan


class Collector:
    """A stream of a store's events, run until it has what there is, as often as asked."""

    def __init__(self, spark: SparkSession, url: str, folder: Path) -> None:
        self.spark, self.url, self.checkpoint = spark, url, folder / "checkpoint"
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def run(self, **options: Any) -> list[int]:
        """Return how many events each micro-batch had. One that is repeated takes the place of the first."""
        events = self.spark.readStream.format("holdfast").options(url=self.url, **options).load()
        sizes: list[int] = []

        def write(batch: DataFrame, number: int) -> None:
            found = batch.select("queue", "id", "sequence", "transition", "missing").collect()
            self.batches[number] = [tuple(row) for row in found]
            sizes.append(len(found))

        writer = events.writeStream.foreachBatch(write).option("checkpointLocation", str(self.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return [size for size in sizes if size]

    def rows(self) -> list[tuple[Any, ...]]:
        """Return what was collected."""
        return [row for batch in self.batches.values() for row in batch]

    def forget_last(self) -> None:
        """The last batch was planned, and died before it was done."""
        last = max((self.checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


async def enqueue(url: str, count: int) -> None:
    shop = Shop(url)
    async with shop.app:
        await shop.bills(count)
        await shop.send.enqueue("hello")


def live(url: str, count: int) -> None:
    """So many bills, and a mail."""
    asyncio.run(enqueue(url, count))


async def logged(url: str) -> list[tuple[str, str]]:
    shop = Shop(url)
    async with shop.app:
        return sorted((event.queue, event.id) for event in await log_of(shop.app))


@pytest.mark.parametrize("kind", KINDS)
def test_each_event_comes_once_in_batches_of_a_limited_size(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    url = fresh(kind, tmp_path)
    live(url, 10)
    collector = Collector(spark, url, tmp_path)
    assert collector.run(maxEventsPerTrigger="8") == [8, 3]
    live(url, 5)
    collector.forget_last()
    # The batch that was repeated has the same three rows, though there is more by now.
    assert collector.run(maxEventsPerTrigger="8") == [3, 6]
    rows = collector.rows()
    assert sorted((queue, id) for queue, id, *_ in rows) == asyncio.run(logged(url))
    assert len(rows) == 17
    read = (
        spark.read.format("holdfast").options(url=url).load().select("queue", "id", "sequence", "transition", "missing")
    )
    assert Counter(map(tuple, read.collect())) == Counter(rows), "the same table, read as a batch"


@pytest.mark.parametrize("kind", KINDS)
def test_a_limit_counts_the_events_that_options_choose(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    url = fresh(kind, tmp_path)

    async def bills() -> None:
        shop = Shop(url)
        async with shop.app:
            for number in range(11):
                await shop.bills(9)
                await shop.bill.options(job_id=f"urgent-{number}", priority=5).enqueue(number)

    asyncio.run(bills())
    collector = Collector(spark, url, tmp_path)
    assert collector.run(maxEventsPerTrigger="8", where="priority > 0", queues="bills,mail") == [8, 3]
    assert sorted(id for _, id, *_ in collector.rows()) == sorted(f"urgent-{number}" for number in range(11))


def test_a_transaction_that_was_open_during_a_batch_comes_in_a_later_one(spark: SparkSession, tmp_path: Path) -> None:
    url = fresh("postgresql", tmp_path)
    live(url, 2)
    with psycopg.connect(url.partition("?")[0]) as held:

        async def hold() -> None:
            shop = Shop(url)
            async with shop.app:
                await shop.bill.options(connection=held).enqueue(1)
                await shop.bills(4)

        asyncio.run(hold())
        collector = Collector(spark, url, tmp_path)
        assert collector.run() == [7]
        held.commit()
        collector.forget_last()
        assert collector.run() == [7, 1]
    assert len({sequence for _, _, sequence, *_ in collector.rows()}) == 8


def test_a_trimmed_log_is_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    url = fresh("redis", tmp_path, history=10)
    collector = Collector(spark, url, tmp_path)

    async def bills(count: int) -> None:
        shop = Shop(url)
        async with shop.app:
            await shop.bills(count)
            await shop.app.store.expire("bills")

    asyncio.run(bills(5))
    assert collector.run() == [5]
    asyncio.run(bills(20))
    with pytest.raises(StreamingQueryException, match="10 events were trimmed from the log before they could be read"):
        collector.run()
    assert collector.run(failOnDataLoss="false") == [11]
    rows = collector.rows()
    assert [missing for *_, transition, missing in rows if transition == "gap"] == [10]
    assert sum(transition == "enqueue" for *_, transition, _ in rows) == 15


def test_a_log_that_was_reset_is_a_gap(spark: SparkSession, tmp_path: Path) -> None:
    url, other = fresh("sqlite", tmp_path), fresh("sqlite", tmp_path)
    live(url, 6)
    live(other, 2)
    scan = open_scan(other)
    old = scan.end()
    scan.close()
    collector = Collector(spark, url, tmp_path)
    with pytest.raises(StreamingQueryException, match="the log was reset before they could be read"):
        collector.run(after=old)
    assert collector.run(after=old, failOnDataLoss="false") == [8]
    assert [missing for *_, transition, missing in collector.rows() if transition == "gap"] == [None]


def test_a_stream_of_one_queue_from_now_on(spark: SparkSession, tmp_path: Path) -> None:
    url = fresh("redis", tmp_path)
    live(url, 3)
    collector = Collector(spark, url, tmp_path)
    assert collector.run(queue="bills", after="end") == []
    live(url, 4)
    assert collector.run(queue="bills") == [4]
    offset = (collector.checkpoint / "offsets" / "1").read_text().splitlines()[-1]
    assert list(json.loads(json.loads(offset)["position"])) == ["bills"]
