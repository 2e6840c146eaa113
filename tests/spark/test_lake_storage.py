"""A lake on object storage is the same lake: exact after kills and with two writers, and plain Delta for others."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from history import History
from lake_check import check, rows
from object_store import BUCKET, READER, object_store
from pyspark.sql import SparkSession
from storage_run import survives, told

from holdfast import ConfigError, LakeError
from holdfast.cli.root import cli
from holdfast.spark.lake import Lake, LakeLocation

pytestmark = pytest.mark.timeout(600)


def bucket(name: str, user: str | None = None, of: str = BUCKET) -> LakeLocation:
    store = object_store()
    return LakeLocation.of(f"s3://{of}/{name}", store.options(user) if user else store.options())


def test_a_lake_on_s3_survives_kills_and_two_writers(spark: SparkSession, tmp_path: Path) -> None:
    survives(bucket("exact"), spark, tmp_path)


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
    ("path", "options", "line"),
    [
        ("s3://nowhere/lake", {}, "the lake s3://nowhere/lake: the bucket does not exist"),
        ("s3://lakes/none", {}, "s3://lakes/none is no lake: name its folder with --path"),
        ("s3://lakes/none", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the lake s3://lakes/none: no permission"),
    ],
)
def test_commands_say_in_one_line_what_is_wrong_with_a_bucket(path: str, options: dict[str, str], line: str) -> None:
    place = LakeLocation.of(path, {**object_store().options(), **options})
    assert told("lake", "report", at=place).startswith(line)


def test_a_storage_option_needs_a_name_and_a_value(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["lake", "report", "--storage-option", "x"], standalone_mode=False)
    assert str(done.exception) == "--storage-option 'x': give NAME=VALUE, as in AWS_REGION=eu-central-1"
