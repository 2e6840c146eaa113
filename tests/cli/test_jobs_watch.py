"""`holdfast jobs watch`: the events of one job as they come, and an exit code by its end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from cli_shop import Process, Shop, in_shop
from support import until
from terminal import InTerminal


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in the current folder, named by HOLDFAST_APP."""
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


@pytest.mark.parametrize(
    ("task", "code", "last"),
    [
        ("send", 0, "mail/x run 1: completed, attempt 1"),
        ("boom", 1, "mail/x run 1: failed, attempt 1, 1 failure: ValueError: cannot [red]x"),
    ],
)
def test_the_exit_code_tells_how_it_ended(shop: Shop, task: str, code: int, last: str) -> None:
    shop.ok("enqueue", task, *(["to=ann"] if task == "send" else []), "--id", "x")
    shop.work()
    done = shop.run("jobs", "watch", "x")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (code, last)
    assert [line.split()[2] for line in done.stdout.splitlines()[:2]] == ["enqueue", "claim"]
    assert shop.run("jobs", "watch", "mail", "x").stdout == done.stdout


def test_a_cancelled_job_and_one_that_is_not_over_have_codes_of_their_own(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "x")
    done = shop.run("jobs", "watch", "x", "--timeout", "0.01")
    assert (done.exit_code, done.stderr) == (124, "holdfast: mail/x run 1 is not over yet: waiting\n")
    shop.ok("cancel", "mail", "x")
    assert shop.run("jobs", "watch", "mail", "x", "--run", "1").exit_code == 3


def test_a_job_that_is_removed_meanwhile_is_gone(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "x")
    with closing(Process(shop.folder, "jobs", "watch", "mail", "x")) as process:
        process.line("enqueue")
        shop.ok("delete", "mail", "x")
        code, _, err = process.end()
    assert (code, err) == (4, "holdfast: mail/x run 1 is gone: it was deleted, or has expired\n")


def test_what_is_not_there_or_not_clear_is_refused(shop: Shop) -> None:
    assert shop.error("jobs", "watch", "nobody", code=1).startswith("there is no job nobody, or it has expired")
    assert shop.error("jobs", "watch", "mail", "nobody", code=1).startswith("there is no job mail/nobody")
    assert shop.error("jobs", "watch", "a", "b", "c") == "jobs watch takes an id, or a queue and an id, and not 3 words"
    for queue in ("one", "two"):
        shop.ok("enqueue", "--queue", queue, "{}", "--id", "x")
    assert shop.error("jobs", "watch", "x") == "x: name its queue, one of one, two"


def test_json_has_each_event_and_the_end(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "x")
    shop.work()
    lines = [json.loads(line) for line in shop.run("jobs", "watch", "x", "--json").stdout.splitlines()]
    assert [line.get("transition") for line in lines] == ["enqueue", "claim", "complete", None]
    assert (lines[-1]["event"], lines[-1]["state"], lines[-1]["id"]) == ("ended", "completed", "x")


def test_a_terminal_shows_where_it_stands_until_it_is_over(shop: Shop) -> None:
    shop.ok("enqueue", "until_go", "--id", "x")
    words = ("jobs", "watch", "slow", "x")
    with (
        closing(Process(shop.folder, "worker")) as worker,
        closing(InTerminal(*words, cwd=shop.folder, HOLDFAST_APP="shop:app", size=(120, 30))) as terminal,
    ):
        worker.line("running")
        until(lambda: (terminal.read(), "slow/x run 1: active, attempt 1" in terminal.raw)[1], "it runs")
        (shop.folder / "go").write_text("")
        assert terminal.end() == 0
        assert "slow/x run 1: completed, attempt 1" in terminal.screen.text
        worker.signal(signal.SIGTERM)
        worker.end()
