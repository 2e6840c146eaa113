"""`df.write.format("holdfast")` and `writeStream`: one job for each row, and no row twice."""

from __future__ import annotations

import importlib
import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from spark_shop import Shop

from holdfast.core.state import State
from holdfast.errors import ConfigError, PayloadError
from holdfast.spark import end_hold, report, write
from holdfast.spark.write.report import WriteReport, checksum, keep_report
from holdfast.spark.write.sink import MicroBatch, _is_committed

SOON = datetime(2126, 1, 1, tzinfo=UTC)
HOUR_MS, DAY_MS = 3600 * 1000, 24 * 3600 * 1000


@pytest.fixture
def quotes(spark: SparkSession) -> DataFrame:
    """Three things to ask the price of, one of them twice."""
    return spark.createDataFrame([("pear", 1), ("fig", 2), ("pear", 1), ("date", 3)], "item string, number int")


def test_columns_are_id_time_priority_key_and_arguments(spark: SparkSession, shop: Shop) -> None:
    rows = [("a", SOON, 7, "ann", "pear", 2), ("b", None, None, None, "fig", 3)]
    schema = "which string, at timestamp, weight int, customer string, item string, number int"
    df = spark.createDataFrame(rows, schema)
    done = write(
        df, shop.quote, app=shop.target, name="w", id_column="which", run_at_column="at", priority_column="weight",
        key_column="customer",
    )  # fmt: skip
    assert (done.rows, done.queued, done.duplicate) == (2, 2, 0)
    jobs = shop.jobs("quotes")
    late, now = jobs["a"], jobs["b"]
    assert (late.state, late.run_at, late.priority, late.key) == (State.SCHEDULED, SOON, 7, "ann")
    assert (now.state, now.priority, now.key, now.task) == (State.WAITING, 0, None, "quote")
    assert json.loads(late.payload) == {"item": "pear", "number": 2}


def test_a_row_is_one_job_however_often_it_is_written_under_one_name(quotes: DataFrame, shop: Shop) -> None:
    first = write(quotes, shop.quote, app=shop.target, name="once")
    assert str(first) == "write 'once': 4 rows, 3 queued, 1 duplicate"
    assert shop.burst("quotes").completed == 3
    again = write(quotes, shop.quote, app=shop.target, name="once")
    assert (again.queued, again.duplicate, again.finished) == (0, 4, 4)
    assert write(quotes, shop.quote, app=shop.target, name="other", hash_columns=["item"]).queued == 3
    assert report("once", shop.url) == again
    assert report("nobody", shop.url) is None


def test_jobs_are_held_for_the_write_and_then_as_long_as_others(quotes: DataFrame, shop: Shop) -> None:
    options = {"url": shop.url, "app": shop.target, "task": "quote", "name": "held", "until": "hold"}
    quotes.write.format("holdfast").mode("append").options(**options).save()
    shop.burst("quotes")
    held = list(shop.jobs("quotes").values())
    assert {job.expires_at_ms - job.finished_at_ms for job in held} == {DAY_MS}
    end_hold("held", shop.url)
    assert all(job.expires_at_ms - job.finished_at_ms < 2 * HOUR_MS for job in shop.jobs("quotes").values())
    write(quotes, shop.quote, app=shop.target, name="committed")
    shop.burst("quotes")
    committed = [job for id, job in shop.jobs("quotes").items() if id.startswith("committed:")]
    assert {job.expires_at_ms - job.finished_at_ms for job in committed} == {HOUR_MS}
    with pytest.raises(ConfigError, match="there is no such write"):
        end_hold("nobody", shop.url)


def test_rich_arguments_and_plain_queues(spark: SparkSession, shop: Shop) -> None:
    row = [(SOON, 1.5, ("pear", 100, ["x"]))]
    struct = "at timestamp, share double, quote struct<item: string, cents: int, tags: array<string>>"
    write(spark.createDataFrame(row, struct), shop.typed, app=shop.target, name="rich")
    (job,) = shop.jobs("typed").values()
    assert json.loads(job.payload)["quote"] == {"item": "pear", "cents": 100, "tags": ["x"]}
    plain = spark.createDataFrame([(1, {"a": [{"b": 2}]})], "number int, more map<string, array<map<string, int>>>")
    options = {"url": shop.url, "queue": "plain", "priority": "3"}
    plain.write.format("holdfast").mode("append").options(**options).save()
    (job,) = shop.jobs("plain").values()
    assert (job.task, job.priority, json.loads(job.payload)) == (None, 3, {"number": 1, "more": {"a": [{"b": 2}]}})


def test_tags_are_an_option_and_a_column(spark: SparkSession, shop: Shop) -> None:
    rows = spark.createDataFrame(
        [("pear", ["a,b", "vip"]), ("plum", []), ("fig", None)], "item string, more array<string>"
    )
    write(rows, shop.quote, app=shop.target, name="tagged", tags=["vip", "c,d"], tags_column="more")
    found = {json.loads(job.payload)["item"]: job.tags for job in shop.jobs("quotes").values()}
    assert found == {"pear": ("vip", "c,d", "a,b"), "plum": ("vip", "c,d"), "fig": ("vip", "c,d")}
    plain = spark.createDataFrame([("x",)], "tag string")
    options = {"url": shop.url, "queue": "plain", "tags": "one, two", "tagsColumn": "tag"}
    plain.write.format("holdfast").mode("append").options(**options).save()
    (job,) = shop.jobs("plain").values()
    assert (job.tags, json.loads(job.payload)) == (("one", "two", "x"), {})
    with pytest.raises(PayloadError, match=r"does not fit .* tags: a job has at most 50 tags"):
        write(rows.selectExpr("item", "transform(sequence(1, 60), n -> cast(n as string)) as more"), shop.quote,
              app=shop.target, tags_column="more")  # fmt: skip


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "item string, more int",
        {"tags_column": "more"},
        "the column is int, and must be a string or an array of strings",
    ),
    ("item string", {"tags": [""]}, "a tag is a string of at least one character"),
    ("number string, item string", {}, "column 'number' is string, and quote\\(\\) takes int there; cast it"),
    ("item string, colour string", {}, "unexpected keyword argument 'colour'; rename or drop columns"),
    ("number int", {}, "the columns number do not fit: .*'item'"),
    ("item string, at string", {"run_at_column": "at"}, "\"runAtColumn\", 'at'\\): the column is string"),
    ("item string", {"key_column": "who"}, "there is no such column; there are item"),
    ("item string", {"id_column": "item", "hash_columns": ["item"]}, "the ids come from idColumn already"),
    ("item string", {"name": ""}, "the name of a write is a string of at least one character"),
]


@pytest.mark.parametrize(("schema", "options", "message"), WRONG)
def test_columns_that_do_not_fit_are_refused_before_anything_is_enqueued(
    spark: SparkSession, shop: Shop, schema: str, options: dict[str, Any], message: str
) -> None:
    df = spark.createDataFrame([], schema)
    with pytest.raises(ConfigError, match=message):
        write(df, shop.quote, app=shop.target, **{"name": "wrong", **options})


def test_a_task_whose_jobs_must_have_a_key_wants_the_column_and_a_value_in_each_row(
    spark: SparkSession, shop: Shop
) -> None:
    rows = spark.createDataFrame([("pear", "ann"), ("plum", None)], "item string, who string")
    with pytest.raises(ConfigError, match=r'option\("keyColumn"\): jobs of .* must have a key \(key_required\)'):
        write(rows.select("item"), shop.keyed, app=shop.target, name="keyless")
    with pytest.raises(Exception, match=r"'who' is null, and its jobs must have a key \(key_required\)"):
        write(rows, shop.keyed, app=shop.target, name="holes", key_column="who")
    write(rows.where("who is not null"), shop.keyed, app=shop.target, name="keyed", key_column="who")
    assert [job.key for id, job in shop.jobs("keyed").items() if id.startswith("keyed:")] == ["ann"]


def test_options_that_cannot_be_right_are_refused(spark: SparkSession, shop: Shop) -> None:
    df = spark.createDataFrame([], "item string")
    with pytest.raises(ConfigError, match="has no such task; it has quote, double"):
        write(df, "gone", app=shop.target)
    with pytest.raises(ConfigError, match="which queue"):
        write(df, "quote", url=shop.url)
    with pytest.raises(ConfigError, match="which store"):
        write(df, "quote", queue="quotes")
    with pytest.raises(ConfigError, match="cannot see this one's memory"):
        write(df, "quote", url="memory://", queue="quotes")
    wrong = (
        ({"colour": "red"}, "writes with url, app"), ({"hold": "long"}, "a number"),
        ({"tags": "[1]"}, "or a JSON array"),
        ({"chunk": "0"}, "a whole number from 1"), ({"priority": "1.5"}, "a whole number from -1000"),
    )  # fmt: skip
    for options, message in wrong:
        with pytest.raises(Exception, match=message):
            df.write.format("holdfast").mode("append").options(**options).save()
    with pytest.raises(Exception, match="a queue is not overwritten"):
        df.write.format("holdfast").mode("overwrite").options(url=shop.url, queue="quotes").save()


def test_a_store_that_is_not_there_is_told_before_any_row_is_looked_at(spark: SparkSession, closed: int) -> None:
    options = {"url": f"redis://127.0.0.1:{closed}?retry_for=0", "queue": "q"}
    spark.sparkContext.setJobGroup("nowhere", "a write that cannot be")
    try:
        with pytest.raises(Exception, match=f"127.0.0.1:{closed} cannot be reached"):
            spark.range(3).write.format("holdfast").mode("append").options(**options).save()
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup("nowhere") == []


def test_a_row_whose_payload_is_too_large_is_named(spark: SparkSession, shop: Shop) -> None:
    df = spark.createDataFrame([("x" * 2**20,)], "item string").coalesce(1)
    with pytest.raises(
        PayloadError, match=r"the row \(item='xxx.*\) does not fit quote\(\): payload of quote has 1048587 bytes"
    ):
        write(df, shop.quote, app=shop.target, name="large")
    assert shop.jobs("quotes") == {}
    options = {"url": shop.url, "queue": "plain"}
    with pytest.raises(Exception, match="payload of queue 'plain' has 1048587 bytes, and max_payload is 1048576"):
        df.write.format("holdfast").mode("append").options(**options).save()
    with pytest.raises(Exception, match=r"maxPayload.*: a whole number from 1"):
        df.write.format("holdfast").mode("append").options(**options, maxPayload="0").save()
    df.write.format("holdfast").mode("append").options(**options, maxPayload="2000000").save()
    assert len(shop.jobs("plain")) == 1


def test_a_row_that_does_not_fit_is_named_and_the_rest_is_not_written_twice(spark: SparkSession, shop: Shop) -> None:
    df = spark.createDataFrame([("pear", 1), ("fig", None)], "item string, number int").coalesce(1)
    said = r"^write .mended.: the row \(item='fig', number=None\) does not fit quote\(\): number was expected to be int"
    with pytest.raises(PayloadError, match=said):
        write(df, shop.quote, app=shop.target, name="mended")
    mended = write(df.fillna(9), shop.quote, app=shop.target, name="mended")
    assert mended.rows == len(shop.jobs("quotes")) == 2


def test_a_batch_that_a_stream_brings_again_is_skipped(spark: SparkSession, shop: Shop, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    (source / "1.json").write_text('{"item": "pear", "number": 1}\n{"item": "fig", "number": 2}\n')

    def run() -> None:
        stream = spark.readStream.schema("item string, number int").json(str(source))
        options = {"app": shop.target, "task": "quote", "name": "stream", "checkpointLocation": str(checkpoint)}
        query = stream.writeStream.format("holdfast").options(**options).trigger(availableNow=True).start()
        query.awaitTermination()

    run()
    first = shop.jobs("quotes")
    assert {id.rpartition(":")[0] for id in first} == {"stream:0"}
    for id in first:  # as if they had expired long ago
        shop.sync(shop.app.queue("quotes").delete(id))
    (checkpoint / "commits" / "0").unlink()  # Spark died before it wrote down that the batch was done
    (checkpoint / "commits" / ".0.crc").unlink(missing_ok=True)
    (source / "2.json").write_text('{"item": "pear", "number": 1}\n')
    run()
    assert [id.rpartition(":")[0] for id in shop.jobs("quotes")] == ["stream:1"]
    found = report("stream", shop.url)
    assert found is not None
    assert (found.batch, found.rows, found.queued) == (1, 3, 3)


def test_a_checkpoint_that_was_put_back_loses_no_row_in_silence(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()

    def run(query: str, *items: str) -> None:
        for item in items:
            (source / f"{item}.json").write_text(f'{{"item": "{item}"}}\n')
        stream = spark.readStream.schema("item string").json(str(source))
        options = {"app": shop.target, "task": "quote", "name": "back", "checkpointLocation": str(checkpoint)}
        writer = stream.writeStream.format("holdfast").options(**options).queryName(query)
        writer.trigger(availableNow=True).start().awaitTermination()

    run("first", "pear")
    shutil.copytree(checkpoint, tmp_path / "kept")
    run("renamed", "fig")
    shutil.rmtree(checkpoint)
    shutil.copytree(tmp_path / "kept", checkpoint)
    with pytest.raises(Exception, match="batch 1 was written before, with other rows: its checkpoint was put back"):
        run("first", "date")
    assert sorted(id.rpartition(":")[0] for id in shop.jobs("quotes")) == ["back:0", "back:1"]


def test_a_checksum_is_of_the_ids_and_not_of_their_order() -> None:
    assert checksum(["a", "b", "c"]) == checksum(["c", "a", "b"]) != checksum(["a", "b", "b"])
    assert checksum([]) == 0
    assert checksum(["a"]) != checksum(["a", ""])


def test_a_batch_before_the_last_is_none_that_spark_repeats(shop: Shop) -> None:
    async def asked(number: int) -> bool:
        await keep_report(shop.app.store, WriteReport(name="s", batch=5, query="q"), keep_ms=None)
        return await _is_committed(shop.app.store, "s", MicroBatch("q", number))

    assert shop.sync(asked(5))
    assert not shop.sync(asked(6))
    with pytest.raises(
        ConfigError, match="its checkpoint was put back: it brings batch 3, and has written up to batch 5"
    ):
        shop.sync(asked(3))


def test_a_stream_of_the_same_name_with_another_checkpoint_is_refused(
    spark: SparkSession, shop: Shop, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"item": "pear"}\n')

    def run(checkpoint: str) -> None:
        stream = spark.readStream.schema("item string").json(str(tmp_path / "in"))
        options = {"app": shop.target, "task": "quote", "name": "s", "checkpointLocation": str(tmp_path / checkpoint)}
        stream.writeStream.format("holdfast").options(**options).trigger(availableNow=True).start().awaitTermination()

    run("first")
    with pytest.raises(Exception, match="a stream of that name, with another checkpoint, has written up to batch 0"):
        run("second")  # its batches have the same numbers, and would be taken for those that were written
    assert len(shop.jobs("quotes")) == 1


def test_an_app_may_lie_in_another_folder_than_the_driver_runs_in(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from holdfast import Holdfast\napp = Holdfast({!r})\n@app.task(queue='q')\nasync def f(n: int) -> None: ...\n"
    )
    url = f"sqlite:///{tmp_path}/jobs.db"
    (tmp_path / "shop_elsewhere").mkdir()
    (tmp_path / "shop_elsewhere" / "tasks.py").write_text(code.format(url))
    monkeypatch.syspath_prepend(tmp_path)
    tasks = importlib.import_module("shop_elsewhere.tasks")
    assert write(spark.range(2).selectExpr("id AS n"), tasks.f, name="w").queued == 2
    (tmp_path / "shop_elsewhere" / "tasks.py").write_text(code.format(url) + "# changed\n")
    assert write(spark.range(3).selectExpr("id AS n"), tasks.f, name="w").queued == 1
