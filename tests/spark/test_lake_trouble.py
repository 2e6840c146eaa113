"""What can go wrong with a lake's place or clock: one clear line, nothing half-written, and the next run goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from history import History
from lake_check import check_store, rows
from pyspark.sql import SparkSession

from holdfast import ConfigError, Holdfast, LakeError, LakeTooNew, StoreError
from holdfast.cli.root import cli
from holdfast.spark.lake import Lake, LakeLocation, follow
from holdfast.spark.lake import lake as running
from holdfast.spark.lake.compaction import compact
from holdfast.spark.lake.delta_table import LakeTable
from holdfast.spark.lake.schemas import EVENTS, GAPS, LAKE_TABLES
from holdfast.spark.lake.storage import parquet_writer
from holdfast.spark.lake.storage.parquet_writer import WriteTarget, file_writer
from holdfast.spark.lake.storage.storage_errors import storage_error

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def jumped(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, History]]:
    """A lake whose store's clock has jumped a year ahead while jobs ran, and back again."""
    folder = tmp_path_factory.mktemp("jumped")
    with History("sqlite", folder, seed=5) as history:
        lake = Lake(folder / "lake", history.app, spark)
        for days in (400, -399):
            history.go_on(40)
            history.clock._now_ms += days * 86_400_000  # a clock of tests goes forwards only, others do not
            history.go_on(10)
            assert lake.read_new() is not None
        yield Path(lake.path), history


def refused(*words: object) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)
    assert done.exception is not None
    assert "\n" not in str(done.exception)
    return f"{type(done.exception).__name__}: {done.exception}"


def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def session(*args: object, **options: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("holdfast.spark.session", session)


def test_clocks_that_jumped_lose_nothing(jumped: tuple[Path, History]) -> None:
    lake, history = jumped
    check_store(lake, history.jobs())
    assert len(rows(lake, "events")) == len(history.events())
    week = timedelta(days=7) / timedelta(minutes=1)
    by_worker: dict[str, int] = {}
    for row in rows(lake, "workers"):
        by_worker[row["worker"]] = by_worker.get(row["worker"], 0) + 1
        assert row["busy_ms"] >= 0
    assert max(by_worker.values()) <= 2 * week, "a year's jump is no year of work"


def test_a_folder_of_something_else_is_not_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_session(monkeypatch)
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = Holdfast(url)
    with app.sync:
        app.sync(app.queues())
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    words = ("lake", "run", "--once", "--nice", 0, "--url", url, "--path")
    told = refused(*words, tmp_path / "notes")
    assert told.endswith(
        "notes is no lake, and not empty: it has 'a.txt'; give the lake a folder of its own with --path"
    )
    assert "a file is in the way: name a folder of its own" in refused(*words, tmp_path / "notes" / "a.txt")
    assert [path.name for path in (tmp_path / "notes").iterdir()] == ["a.txt"]
    assert "--once and --follow: one of them" in refused(*words, tmp_path / "lake", "--follow")


def test_a_lake_of_a_newer_holdfast_is_left_alone(
    jumped: tuple[Path, History], spark: SparkSession, tmp_path: Path
) -> None:
    lake = shutil.copytree(jumped[0], tmp_path / "lake")
    DeltaTable(lake / "jobs").alter.set_table_properties({"holdfast.lakeVersion": "99"}, raise_if_not_exists=False)
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    told = refused("lake", "report", "--path", lake)
    assert told.startswith(
        f"LakeTooNew: {lake} was written by a newer Holdfast: its table jobs has version 99; upgrade"
    )
    jumped[1].go_on(5)
    with pytest.raises(LakeTooNew, match="its table jobs has version 99"):
        Lake(lake, jumped[1].app, spark).read_new()
    assert before == {path: path.stat().st_mtime_ns for path in lake.rglob("*")}, "nothing was written"


def test_a_table_of_an_older_holdfast_gets_the_columns_that_it_lacks(tmp_path: Path) -> None:
    older = pa.schema([field for field in GAPS.arrow if field.name != "after"])
    DeltaTable.create(tmp_path / "gaps", older)
    table = LakeTable(LakeLocation.of(tmp_path), GAPS)
    assert {field.name for field in table.delta.schema().fields} == set(GAPS.names)


def test_a_disk_that_is_full_leaves_nothing_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "b1" / "day=2026-01-01").mkdir(parents=True)
    full = tmp_path / "b1" / "day=2026-01-01" / "part-full.parquet"
    full.symlink_to("/dev/full")

    class Name:
        hex = "full"

    monkeypatch.setattr(parquet_writer.uuid, "uuid4", Name)
    day = pa.array(["2026-01-01"]).cast(pa.date32())
    batch = pa.RecordBatch.from_arrays(
        [day if field.name == "day" else pa.nulls(1, field.type) for field in EVENTS.arrow], schema=EVENTS.arrow
    )
    write = file_writer(WriteTarget(LakeLocation.of(tmp_path), EVENTS, "b1"))
    with pytest.raises(LakeError, match=r": no space is left: make room, then run it again; nothing is half-written$"):
        list(write(iter([batch])))


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (OSError(13, "x"), LakeError, "no permission: check the credentials"),
        (OSError("Generic S3 error: connect error: Connection refused"), LakeError, "it cannot be reached"),
        (OSError("no instance metadata at 169.254.169.254"), LakeError, "no credentials were found"),
        (OSError("Generic MicrosoftAzure error Account must be specified"), LakeError, "no credentials were found"),
        (OSError("Generic MicrosoftAzure error Invalid Access Key"), LakeError, "no permission: check the credentials"),
        (OSError("something\n  \x1b[31m↳\x1b[0m else"), LakeError, "something else; run it again"),
    ],
)
def test_what_a_storage_says_becomes_one_line(error: Exception, kind: type[Exception], told: str) -> None:
    found = storage_error(LakeLocation.of("s3://b/lake"), error)
    assert type(found) is kind
    assert str(found).startswith(f"the lake s3://b/lake: {told}")
    assert "\n" not in str(found)


def test_a_url_that_cannot_be_right_is_refused() -> None:
    with pytest.raises(ConfigError, match="name the bucket or host, as in s3://bucket/lake"):
        LakeLocation.of("s3:///lake")
    assert LakeLocation.of("file:///srv/a%20lake").uri == "/srv/a lake"
    assert "secret" not in repr(LakeLocation.of("s3://b/lake", {"AWS_SECRET_ACCESS_KEY": "secret"}))


def test_a_run_that_follows_goes_on_when_a_server_was_away() -> None:
    told: list[object] = []

    class Away:
        def __init__(self) -> None:
            self.results = [StoreError("away"), LakeError("away"), None]

        def read_new(self) -> None:
            result = self.results.pop(0)
            if result is not None:
                raise result

    follow(Away(), 1.0, told.append, lambda seconds: len(told) == 3, persist=True)  # type: ignore[arg-type]
    assert [type(each) for each in told] == [StoreError, LakeError, type(None)]
    with pytest.raises(StoreError):
        follow(Away(), 1.0, told.append)  # type: ignore[arg-type]


def test_small_files_are_merged_and_no_row_changes(
    jumped: tuple[Path, History], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = LakeLocation.of(shutil.copytree(jumped[0], tmp_path / "lake"))
    monkeypatch.setattr("holdfast.spark.lake.compaction.TOGETHER", 2)
    before = {schema.name: sorted(map(repr, rows(lake, schema.name))) for schema in LAKE_TABLES}
    own = running.own_session(spark)
    merged = {}
    for schema in LAKE_TABLES:
        table = LakeTable(lake, schema)
        files = len(table.files())
        merged[schema.name] = compact(own, table, 9, None)
        assert len(table.files()) == files - max(merged[schema.name] - 1, 0)
    assert merged["events"] >= 2
    assert merged["batches"] == 2
    assert before == {schema.name: sorted(map(repr, rows(lake, schema.name))) for schema in LAKE_TABLES}
