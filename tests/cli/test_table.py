"""Tables of the command line: what is shown in narrow and wide terminals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop
from terminal import InTerminal

from holdfast.cli.columns import Fit, TableColumn, fit

ID = "0193a1b2c3d40000000a0f1e2d3c4b5a"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop with a few jobs, a schedule, and a chain of events."""
    with in_shop(tmp_path, monkeypatch) as shop:
        for number in range(3):
            shop.ok(
                "enqueue", "send", f"to=customer-{number}@a-rather-long-name.example.com", "--key", f"tenant-{number}"
            )
        shop.ok("enqueue", "boom", "--id", "a-job-that-fails")
        shop.work()
        shop.ok("enqueue", "send", "to=ann", "--id", "later", "--delay", "1h")
        shop.ok(
            "schedules", "add", "every-night", "send", "to=ann", "--cron", "30 3 * * MON-FRI", "--tz", "Europe/Berlin"
        )
        yield shop


def columns(*marks: str) -> list[TableColumn]:
    return [TableColumn.of(mark) for mark in marks]


# --- how columns are fitted


def test_marks_say_how_a_column_is_shown() -> None:
    assert columns("a", ">b", ">?c", "?d") == [
        TableColumn("a", False, False), TableColumn("b", True, False),
        TableColumn("c", True, True), TableColumn("d", False, True),
    ]  # fmt: skip


def test_all_columns_are_shown_while_they_fit() -> None:
    assert fit(columns("id", "?key", ">?n"), [["abc", "", "5"]], 80) == Fit([0, 1, 2], [3, 3, 1])


def test_empty_columns_go_first_then_optional_ones_from_the_right() -> None:
    rows = [[ID, "", "1234", "a few words of text"]]
    assert fit(columns("id", "key", ">?runs", "error"), rows, 60).places == [0, 2, 3]
    assert fit(columns("id", "key", ">?runs", "error"), rows, 42).places == [0, 3]


def test_words_stay_whole_while_there_is_room_and_texts_are_folded() -> None:
    found = fit(columns("id", "error"), [[ID, "a text of several words, which is long"]], 50)
    assert found.widths == [32, 16]


def test_a_table_that_does_not_fit_at_all_breaks_its_words() -> None:
    assert fit(columns("id", "task"), [[ID, ID]], 40) == Fit([0, 1], None)


# --- every list, in a terminal of eighty columns

LISTS = [
    ["jobs"], ["jobs", "show", "mail", "a-job-that-fails"], ["queues"], ["tasks"], ["schedules"], ["workers"],
    ["chains"], ["schedules", "show", "every-night"], ["settings"], ["doctor"], ["queues", "keys", "mail"],
    ["requeue", "--dry-run"],
]  # fmt: skip


@pytest.mark.parametrize("words", LISTS, ids=" ".join)
def test_a_list_fits_eighty_columns(shop: Shop, words: list[str]) -> None:
    with closing(InTerminal(*words, cwd=shop.folder, size=(80, 60), HOLDFAST_APP="shop:app")) as terminal:
        assert terminal.end() == 0
        shown = [line for line in terminal.screen.text.splitlines() if not line.startswith(" " * 4)]
    tables = [line for line in shown if not line.startswith(("not shown in", "  File", "Traceback"))]
    assert max(map(len, tables)) <= 80, tables


def test_what_is_left_out_is_told_and_a_wide_terminal_has_it(shop: Shop) -> None:
    with closing(InTerminal("jobs", cwd=shop.folder, size=(80, 30), HOLDFAST_APP="shop:app")) as terminal:
        assert terminal.end() == 0
        narrow = terminal.screen.text
    assert "not shown in 80 columns: run, attempts, failures, key (--json has all)" in narrow
    with closing(InTerminal("jobs", cwd=shop.folder, size=(200, 30), HOLDFAST_APP="shop:app")) as terminal:
        assert terminal.end() == 0
        wide = terminal.screen.text
    assert "not shown" not in wide
    assert wide.splitlines()[0].split() == [
        "queue", "id", "run", "task", "state", "attempts", "failures", "key", "age", "error",
    ]  # fmt: skip


def test_a_pipe_gets_every_column_however_wide(shop: Shop) -> None:
    assert shop.ok("workers").split() == [
        "worker", "host", "pid", "queues", "active", "slots", "is", "up", "heard", "memory", "version",
    ]  # fmt: skip
