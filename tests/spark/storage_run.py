"""What a lake goes through on every object storage: kills, two writers at once, a vacuum, and what comes after it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import polars
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable
from history import History
from lake_check import check, check_store, rows
from pyspark.sql import SparkSession

from holdfast import LakeBusy
from holdfast.cli.root import cli
from holdfast.spark.lake import Lake, LakeLocation
from holdfast.spark.lake.schemas import LAKE_TABLES
from holdfast.spark.lake.vacuum import vacuum

POINTS = ("events written", "jobs written")


class Killed(BaseException):
    """The run ends here, as if by kill -9: all that is left is in the bucket."""


def command(*given: object, at: LakeLocation) -> Result:
    """Run a command of ours on a lake."""
    options = [f"--storage-option={name}={value}" for name, value in at.options.items()]
    return CliRunner().invoke(cli, [*map(str, given), "--path", at.uri, *options], standalone_mode=False)


def told(*given: object, at: LakeLocation) -> str:
    """Return the one line in which a command says what is wrong."""
    line = str(command(*given, at=at).exception)
    assert "\n" not in line
    return line


def survives(place: LakeLocation, spark: SparkSession, folder: Path) -> None:
    """A lake here is exact, whatever happens to its writers."""
    with History("sqlite", folder) as history:
        history.go_on(60)
        Lake(place, history.app, spark).read_new()
        history.go_on(60)
        for point in POINTS:
            _killed_at(point, place, history, spark)
        _two_at_once(place, history, spark)
        check(place, history.events())
        check_store(place, history.jobs())
        vacuum(place, timedelta(0))
        check(place, history.events())
        history.go_on(20)
        assert Lake(place, history.app, spark).read_new() is not None, "it goes on after a vacuum"
        check(place, history.events())
        assert "mail" in command("lake", "report", at=place).output
        _read_by_others(place)


def _killed_at(point: str, place: LakeLocation, history: History, spark: SparkSession) -> None:
    def kill(reached: str) -> None:
        if reached == point:
            raise Killed

    with pytest.raises(Killed):
        Lake(place, history.app, spark, kill).read_new()


def _two_at_once(place: LakeLocation, history: History, spark: SparkSession) -> None:
    second = Lake(place.uri, history.app, spark, storage_options=place.options)

    def at_once(reached: str) -> None:
        if reached == "jobs written":
            second.read_new()

    with pytest.raises(LakeBusy, match="another process has just written to this lake"):
        Lake(place, history.app, spark, at_once).read_new()


def _read_by_others(place: LakeLocation) -> None:
    """Polars and DuckDB read every table, row by row, and know nothing of Holdfast; older readers may, too."""
    for schema in LAKE_TABLES:
        table = DeltaTable(f"{place.uri}/{schema.name}", storage_options=place.options)
        protocol = table.protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2), schema.name
        assert not [*(protocol.reader_features or ()), *(protocol.writer_features or ())], schema.name
        ours = rows(place, schema.name)
        theirs = polars.read_delta(table).to_dicts()
        assert _in_order(theirs) == _in_order(ours), schema.name
        dataset = table.to_pyarrow_dataset()
        assert dataset is not None
        assert duckdb.sql("SELECT count(*) FROM dataset").fetchall() == [(len(ours),)], schema.name


def _in_order(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({name: row[name] for name in sorted(row)} for row in found), key=str)
