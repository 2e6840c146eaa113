"""A lake on object storage is the same lake: exact after kills and with two writers, and plain Delta for others."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import duckdb
import polars
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from history import History
from lake_check import check, check_store, rows
from object_store import BUCKET, READER, object_store
from pyspark.sql import SparkSession

from holdfast import ConfigError, LakeBusy, LakeError
from holdfast.cli.root import cli
from holdfast.spark.lake import Lake, LakeLocation
from holdfast.spark.lake.vacuum import vacuum

pytestmark = pytest.mark.timeout(600)
POINTS = ("events written", "jobs written")


class Killed(BaseException):
    """The run ends here, as if by kill -9: all that is left is in the bucket."""


def bucket(name: str, user: str | None = None, of: str = BUCKET) -> LakeLocation:
    store = object_store()
    return LakeLocation.of(f"s3://{of}/{name}", store.options(user) if user else store.options())


def words(*given: object, at: LakeLocation) -> list[str]:
    options = [f"--storage-option={name}={value}" for name, value in at.options.items()]
    return [*map(str, given), "--path", at.uri, *options]


def run(*given: object, at: LakeLocation) -> Result:
    return CliRunner().invoke(cli, words(*given, at=at), standalone_mode=False)


def test_a_lake_on_s3_survives_kills_and_two_writers(spark: SparkSession, tmp_path: Path) -> None:
    place = bucket("exact")
    with History("sqlite", tmp_path) as history:
        history.go_on(60)
        Lake(place, history.app, spark).read_new()
        history.go_on(60)
        for point in POINTS:

            def kill(reached: str, point: str = point) -> None:
                if reached == point:
                    raise Killed

            with pytest.raises(Killed):
                Lake(place, history.app, spark, kill).read_new()
        second = Lake(place.uri, history.app, spark, storage_options=place.options)

        def at_once(reached: str) -> None:
            if reached == "jobs written":
                second.read_new()

        with pytest.raises(LakeBusy, match="another process has just written to this lake"):
            Lake(place, history.app, spark, at_once).read_new()
        check(place, history.events())
        check_store(place, history.jobs())
        vacuum(place, timedelta(0))
        check(place, history.events())
        shown = run("lake", "report", at=place)
        assert "mail" in shown.output
        _read_by_others(place, len(history.events()))


def _read_by_others(place: LakeLocation, events: int) -> None:
    """Polars and DuckDB read the tables, and know nothing of Holdfast."""
    uri = f"{place.uri}/events"
    assert polars.read_delta(uri, storage_options=place.options).height == events
    dataset = DeltaTable(uri, storage_options=place.options).to_pyarrow_dataset()
    found = duckdb.sql("SELECT count(*) FROM dataset").fetchall()
    assert dataset is not None
    assert found == [(events,)]


def test_a_bucket_that_is_not_there_or_may_not_be_written_is_one_line(spark: SparkSession, tmp_path: Path) -> None:
    with History("sqlite", tmp_path) as history:
        history.go_on(10)
        with pytest.raises(ConfigError, match=r"^the lake s3://nowhere/lake: the bucket does not exist: make it first"):
            Lake(bucket("lake", of="nowhere"), history.app, spark).read_new()
        with pytest.raises(LakeError, match=r"^the lake s3://lakes/denied: no permission: check the credentials"):
            Lake(bucket("denied", READER), history.app, spark).read_new()
        lake = Lake(bucket("denied"), history.app, spark)
        lake.read_new()
        history.go_on(10)
        with pytest.raises(LakeError, match="no permission"):
            Lake(bucket("denied", READER), history.app, spark).read_new()
        assert lake.read_new() is not None, "the next run goes on"
        check(lake.location, history.events())
        assert len(rows(bucket("denied", READER), "batches")) == 2, "a reader may look"


@pytest.mark.parametrize(
    ("path", "options", "told"),
    [
        ("s3://nowhere/lake", {}, "the lake s3://nowhere/lake: the bucket does not exist"),
        ("s3://lakes/none", {}, "s3://lakes/none is no lake: name its folder with --path"),
        ("s3://lakes/none", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the lake s3://lakes/none: no permission"),
    ],
)
def test_commands_say_in_one_line_what_is_wrong_with_a_bucket(path: str, options: dict[str, str], told: str) -> None:
    place = LakeLocation.of(path, {**object_store().options(), **options})
    done = run("lake", "report", at=place)
    assert str(done.exception).startswith(told)
    assert "\n" not in str(done.exception)


def test_a_storage_option_needs_a_name_and_a_value(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["lake", "report", "--storage-option", "x"], standalone_mode=False)
    assert str(done.exception) == "--storage-option 'x': give NAME=VALUE, as in AWS_REGION=eu-central-1"
