"""A lake on Azure is the same lake, by both kinds of its URLs; what is wrong with a container is one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from azure_store import ACCOUNT, CONTAINER, AzureStore
from history import History
from lake_check import check
from pyspark.sql import SparkSession
from storage_run import survives, told

from holdfast import ConfigError
from holdfast.spark.lake import Lake, LakeLocation

pytestmark = pytest.mark.timeout(600)
OTHER_KEY = "YW5vdGhlciBrZXk="


@pytest.fixture(scope="module")
def azure() -> Iterator[AzureStore]:
    with closing(AzureStore()) as store:
        yield store


def test_a_lake_on_azure_survives_kills_and_two_writers(azure: AzureStore, spark: SparkSession, tmp_path: Path) -> None:
    survives(LakeLocation.of(f"az://{CONTAINER}/exact", azure.options()), spark, tmp_path)


def test_both_kinds_of_urls_name_one_lake(azure: AzureStore, spark: SparkSession, tmp_path: Path) -> None:
    short = LakeLocation.of(f"az://{CONTAINER}/shop", azure.options())
    long = LakeLocation.of(f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/shop", azure.options())
    with History("sqlite", tmp_path) as history:
        for place in (short, long):
            history.go_on(20)
            assert Lake(place, history.app, spark).read_new() is not None
            check(short, history.events())
            check(long, history.events())
        with pytest.raises(ConfigError, match=r"^the lake az://nowhere/lake: the bucket does not exist: make it first"):
            Lake(LakeLocation.of("az://nowhere/lake", azure.options()), history.app, spark).read_new()


@pytest.mark.parametrize(
    ("path", "options", "line"),
    [
        ("az://nowhere/lake", {}, "the lake az://nowhere/lake: the bucket does not exist"),
        ("az://lakes/none", {}, "az://lakes/none is no lake: name its folder with --path"),
        ("az://lakes/none", {"AZURE_STORAGE_ACCOUNT_KEY": OTHER_KEY}, "the lake az://lakes/none: no permission"),
        ("az://lakes/none", {"AZURE_STORAGE_ACCOUNT_KEY": "%"}, "the lake az://lakes/none: no permission"),
    ],
)
def test_commands_say_in_one_line_what_is_wrong_with_a_container(
    azure: AzureStore, path: str, options: dict[str, str], line: str
) -> None:
    place = LakeLocation.of(path, {**azure.options(), **options})
    for name in ("report", "vacuum"):
        assert told("lake", name, at=place).startswith(line)


def test_an_account_that_was_not_named_is_one_line() -> None:
    place = LakeLocation.of("az://lakes/none", {"AZURE_STORAGE_ACCOUNT_KEY": OTHER_KEY})
    assert told("lake", "report", at=place).startswith("the lake az://lakes/none: no credentials were found")
