"""`holdfast lake report` and `views`, as people call them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from drawn_history import DrawnHistory, DrawnQueue
from plain_lake import write_lake, write_table

from holdfast import ConfigError, ErrorRecord, Event
from holdfast.cli.root import cli
from holdfast.spark.lake.report.views import VIEWS
from holdfast.spark.lake.schemas import ATTEMPTS

BEGIN = datetime(2026, 11, 10, 7, 0, tzinfo=UTC)
PERIOD = ("--since", "2026-11-10T11:00", "--until", "2026-11-10T14:00")


def run(*words: object) -> str:
    done = CliRunner().invoke(cli, [str(word) for word in words], catch_exceptions=False, standalone_mode=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_period_is_shown_with_what_has_changed(drawn: tuple[Path, list[Event]]) -> None:
    shown = run("lake", "report", "--path", drawn[0], *PERIOD)
    assert shown.startswith("2026-11-10 11:00 to 2026-11-10 14:00 (UTC), all queues\nread up to 2026-11-10 15:00\n")
    for title in (
        "Compared with the period before",
        "Queues",
        "What went wrong has cost",
        "Errors",
        "Tenants",
        "Fairness",
    ):
        assert f"\n{title}\n" in shown
    same = run("lake", "report", "--path", drawn[0], "--last", "3h", "--until", "2026-11-10T14:00")
    assert same == shown


def test_only_the_queues_that_were_asked_for(drawn: tuple[Path, list[Event]]) -> None:
    shown = run("lake", "report", "--path", drawn[0], "--queue", "mail", "--queue", "photos")
    assert "queues mail, photos" in shown
    assert "payments" not in shown
    assert "nothing has happened" in run("lake", "report", "--path", drawn[0], "--queue", "no such")


def test_all_of_it_as_json(drawn: tuple[Path, list[Event]]) -> None:
    told = json.loads(run("lake", "report", "--path", drawn[0], *PERIOD, "--json"))
    assert (told["begin"], told["end"]) == ("2026-11-10T11:00:00Z", "2026-11-10T14:00:00Z")
    assert told["step"] == 120
    assert told["total"]["completed"] == sum(row["completed"] for row in told["queues"])
    assert told["before"]["completed"] == sum(row["before"]["completed"] for row in told["queues"])
    assert {"busy", "series", "retries", "fairness", "workers", "gaps", "backlog", "errors", "tenants"} < told.keys()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--last", "3h", "--since", "1d"), "--last and --since: give one of them"),
        (("--last", "soon"), "--last='soon': write seconds"),
        (("--until", "later"), "--until='later': write seconds"),
        (("--since", "2026-11-11", "--until", "2026-11-10"), "before it begins: give a later --until"),
    ],
)
def test_what_makes_no_sense_is_refused(drawn: tuple[Path, list[Event]], words: tuple[str, ...], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        run("lake", "report", "--path", drawn[0], *words)


def test_lines_fit_80_columns_and_steer_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "x\x1b[2J\u202e" * 9
    queue = DrawnQueue(evil, evil, 600, 20_000, 0.4, ErrorRecord(type=evil, message=evil), (evil, "b"))
    lake = write_lake(tmp_path / "lake", DrawnHistory(1, BEGIN, 0.4, (queue,)).draw(), BEGIN + timedelta(hours=1))
    monkeypatch.setattr("holdfast.cli.output.WIDE", 80)
    shown = run("lake", "report", "--path", lake)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    tables = shown.split("\nQueues\n")[1]
    assert max(len(line) for line in tables.splitlines() if not line.startswith("not shown")) <= 80


def test_a_report_imports_neither_spark_nor_pandas_and_writes_nothing(
    drawn: tuple[Path, list[Event]], tmp_path: Path
) -> None:
    before = {path: path.stat().st_mtime_ns for path in drawn[0].rglob("*")}
    words = ["lake", "report", "--path", str(drawn[0]), "--html", str(tmp_path / "r.html")]
    program = (
        f"import sys; from holdfast.cli.root import cli; cli({words!r}, standalone_mode=False)\n"
        "print(sorted({'pyspark', 'pandas', 'py4j'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert {path: path.stat().st_mtime_ns for path in drawn[0].rglob("*")} == before


def test_a_lake_of_an_older_version_has_a_report_too(tmp_path: Path) -> None:
    queue = DrawnQueue("mail", "send", 600, 2_000, 0.4, ErrorRecord(type="OSError", message="no"))
    lake = write_lake(tmp_path / "lake", DrawnHistory(1, BEGIN, 0.4, (queue,)).draw(), BEGIN + timedelta(hours=1))
    for path in sorted((lake / "messages").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert "OSError" in run("lake", "report", "--path", lake)
    assert not DeltaTable.is_deltatable(str(lake / "messages")), "who only reads makes no tables"


def test_a_report_adds_no_columns_to_a_lake_that_lacks_them(drawn: tuple[Path, list[Event]], tmp_path: Path) -> None:
    lake = shutil.copytree(drawn[0], tmp_path / "lake")
    rows = DeltaTable(str(lake / "attempts")).to_pyarrow_table().to_pylist()
    older = replace(ATTEMPTS, columns=tuple(column for column in ATTEMPTS.columns if column[0] != "wait_ms"))
    shutil.rmtree(lake / "attempts")
    write_table(lake, older, rows)
    before = {path: path.stat().st_mtime_ns for path in lake.rglob("*")}
    whole, shown = (json.loads(run("lake", "report", "--path", each, "--json")) for each in (drawn[0], lake))
    assert {path: path.stat().st_mtime_ns for path in lake.rglob("*")} == before, "who only reads writes nothing"
    assert [row["wait_p50_ms"] for row in shown["queues"]] == [None] * len(whole["queues"]), "what is lacking is null"
    assert [row["run_p50_ms"] for row in shown["queues"]] == [row["run_p50_ms"] for row in whole["queues"]]


def test_views_are_printed(tmp_path: Path) -> None:
    shown = run("lake", "views")
    for name in VIEWS:
        assert f"CREATE OR REPLACE TEMPORARY VIEW {name} AS" in shown
    assert set(json.loads(run("lake", "views", "--json"))) == set(VIEWS)
