"""A loaded frame that is used more than once gives the answers that plain Python gives, on every store.

Spark 4.3 plans a reader in Python once for each loaded frame, and keeps it for every use of that frame. A reader that
takes filters therefore hands those of the first use to all that follow, and none of ours may take any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter
from pyspark.sql.types import StructType
from spark_places import KINDS, Filled, fresh
from spark_shop import Shop as Module

from holdfast.spark import map, session
from holdfast.spark.read.table_reader import TableReader

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module", params=KINDS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    return Filled(fresh(request.param, tmp_path_factory.mktemp("reuse")))


@pytest.fixture
def own(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """Somebody's own session, with the setting that makes Spark push filters, unless a test says otherwise."""
    setting = getattr(request, "param", "true")
    made = spark.newSession()
    made.conf.set(PUSHDOWN, setting)
    yield made
    assert made.conf.get(PUSHDOWN) == setting


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Module]:
    """An app that executors can import, on a fresh store of each kind."""
    made = Module(tmp_path, fresh(request.param, tmp_path))
    yield made
    made.close()


def events(spark: SparkSession, filled: Filled) -> DataFrame:
    return spark.read.format("holdfast").options(url=filled.url, table="events").load()


def jobs(spark: SparkSession, filled: Filled) -> DataFrame:
    return spark.read.format("holdfast").options(url=filled.url, table="jobs").load()


@pytest.mark.parametrize("own", ["false", "true"], ids=["stock", "pushdown on"], indirect=True)
def test_a_frame_used_twice_does_not_keep_the_first_uses_filter(own: SparkSession, filled: Filled) -> None:
    log = events(own, filled)
    assert log.where("transition = 'claim'").count() == filled.count("claim")
    assert log.count() == len(filled.events)
    assert log.where("transition = 'complete'").count() == filled.count("complete")
    assert log.where("queue = 'mail' AND attempt > 1").count() == sum(
        event.queue == "mail" and event.attempt > 1 for event in filled.events
    )
    kept = jobs(own, filled)
    for state in ("completed", "failed", "scheduled"):
        assert kept.where(F.col("state") == state).count() == sum(job.state == state for job in filled.jobs)
    assert kept.count() == len(filled.jobs)


def test_a_union_of_two_filters_has_both(own: SparkSession, filled: Filled) -> None:
    log = events(own, filled)
    both = log.where("transition = 'claim'").unionByName(log.where("transition = 'fail'"))
    found = {row.transition: row["count"] for row in both.groupBy("transition").count().collect()}
    assert found == {"claim": filled.count("claim"), "fail": filled.count("fail")}


def test_a_self_join_meets_itself_whole(own: SparkSession, filled: Filled) -> None:
    log = events(own, filled)
    begun = log.where("transition = 'claim'").select("queue", "id", "run", "attempt")
    ended = log.where("transition IN ('complete', 'fail', 'retry')").select("queue", "id", "run", "attempt")
    paired = begun.join(ended, ["queue", "id", "run", "attempt"])
    keys = Counter((e.queue, e.id, e.run, e.attempt) for e in filled.events if e.transition == "claim")
    ends = [e for e in filled.events if e.transition in ("complete", "fail", "retry")]
    assert paired.count() == sum(keys[e.queue, e.id, e.run, e.attempt] for e in ends) > 0


def test_a_cached_part_leaves_the_rest_alone(own: SparkSession, filled: Filled) -> None:
    log = events(own, filled)
    part = log.where("transition = 'enqueue'").cache()
    try:
        assert part.count() == filled.count("enqueue")
        assert log.count() == len(filled.events)
        assert log.where("transition = 'claim'").count() == filled.count("claim")
        assert part.count() == filled.count("enqueue")
    finally:
        part.unpersist()


def test_a_subquery_of_the_same_view(own: SparkSession, filled: Filled) -> None:
    events(own, filled).createOrReplaceTempView("log")
    retried = own.sql(
        "SELECT count(*) FROM log WHERE transition = 'complete'"
        " AND id NOT IN (SELECT id FROM log WHERE transition = 'progress')"
    )
    spoke = {event.id for event in filled.events if event.transition == "progress"}
    wanted = [event for event in filled.events if event.transition == "complete" and event.id not in spoke]
    assert retried.collect()[0][0] == len(wanted) > 0
    scalar = own.sql("SELECT count(*) FROM log WHERE run = (SELECT max(run) FROM log WHERE transition = 'fail')")
    last = max(event.run for event in filled.events if event.transition == "fail")
    assert scalar.collect()[0][0] == sum(event.run == last for event in filled.events)


def test_a_limit_leaves_the_rest_alone(own: SparkSession, filled: Filled) -> None:
    log = events(own, filled)
    assert len(log.limit(2).collect()) == 2
    assert log.count() == len(filled.events)


def test_what_a_map_gives_can_be_used_twice(own: SparkSession, shop: Module) -> None:
    rows = own.range(6).selectExpr("id AS number")
    found = map(rows, shop.double, app=shop.target, name="twice", workers=1)
    assert found.where("number = 4").collect()[0].result == 8
    assert {row.number: row.result for row in found.collect()} == {number: number * 2 for number in range(6)}
    assert found.where("state = 'completed'").count() == 6
    assert found.where("state = 'failed'").count() == 0


def pushing() -> type[DataSource]:
    """Return a source of the numbers from 0 to 9. It is made in a function, so that Spark's processes get its code."""

    class Reader(DataSourceReader):
        """Takes every `=`, and leaves out the rest."""

        def __init__(self) -> None:
            self.only: list[int] = []

        def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
            for each in filters:
                if isinstance(each, EqualTo):
                    self.only.append(each.value)
                else:
                    yield each

        def read(self, partition: object) -> Iterator[tuple[int]]:
            return iter([(number,) for number in range(10) if all(number == each for each in self.only)])

    class Pushing(DataSource):
        @classmethod
        def name(cls) -> str:
            return "pushing"

        def schema(self) -> str:
            return "number int"

        def reader(self, schema: StructType) -> DataSourceReader:
            return Reader()

    return Pushing


def test_push_down_stays_off_for_sparks_own_fault(spark: SparkSession) -> None:
    """Once this fails, Spark has mended it, and `TableReader` may take filters from that version on."""
    own = spark.newSession()
    own.conf.set(PUSHDOWN, "true")
    own.dataSource.register(pushing())
    numbers = own.read.format("pushing").load()
    assert [row.number for row in numbers.where("number = 3").collect()] == [3]
    assert numbers.count() == 1, "there are ten, and the filter of the first use still holds"
    assert not hasattr(TableReader, "pushFilters") or TableReader.pushFilters is DataSourceReader.pushFilters


def test_a_session_is_left_as_it_is(spark: SparkSession) -> None:
    before = dict(spark.conf.getAll)
    assert before.get(PUSHDOWN, "false") == "false", "ours does not push filters either"
    assert session() is not None
    assert dict(spark.conf.getAll) == before
