"""The log of `holdfast worker` as processes write it: every line of JSON, whatever happens and however hostile."""

from __future__ import annotations

import json
import os
import signal
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from cli_shop import Process, Shop, in_shop
from support import until

Start = Callable[..., Process]
TURNS = "\u061c\u200e\u200f" + "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
HOSTILE = "".join(map(chr, (*range(1, 32), *range(0x7F, 0xA0)))) + "\u2028\u2029\ufeff" + TURNS


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


@pytest.fixture
def start(shop: Shop) -> Iterator[Start]:
    with ExitStack() as stack:
        yield lambda *words: stack.enter_context(closing(Process(shop.folder, *words)))


def lines(log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.splitlines()]


def events(log: str) -> list[str]:
    return [line["event"] for line in lines(log) if "event" in line]


def unsafe(text: str) -> set[str]:
    return {
        each for each in text if each != "\n" and (unicodedata.category(each) in ("Cc", "Zl", "Zp") or each in TURNS)
    }


@pytest.mark.parametrize("more", [[], ["--processes", "2"]], ids=["one", "several"])
def test_every_line_is_json_and_hostile_jobs_change_nothing_in_that(shop: Shop, start: Start, more: list[str]) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", HOSTILE)
    shop.ok("enqueue", "boom", "--id", f"{HOSTILE}2")
    words = ("--burst", "--log-format", "json", "--queues", "mail,typo", *more)
    code, _, err = start("worker", *words).end()
    assert (code, unsafe(err)) == (0, set())
    told = {line["event"]: line for line in lines(err) if "event" in line}
    assert told["job_completed"]["job_id"] == HOSTILE
    assert told["job_failed"]["traceback"].startswith("Traceback")
    assert "this app declares no such queue" in told["note"]["message"]
    assert {"worker_started", "worker_stopping", "worker_stopped"} <= set(told)


def test_the_format_may_come_from_the_environment(shop: Shop, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_LOG_FORMAT", "json")
    shop.ok("enqueue", "send", "to=ann")
    code, _, err = start("worker", "--burst", "--no-log-jobs").end()
    assert (code, events(err)) == (0, ["worker_started", "worker_stopping", "worker_stopped"])
    code, _, err = start("upkeep", "--app", "shop:app", "--once").end()
    assert (code, err) == (0, "")


def test_the_job_of_a_worker_that_was_killed_is_told_by_the_next(shop: Shop, start: Start) -> None:
    shop.ok("enqueue", "until_go", "--id", "a")
    first = start("worker", "--lease", "0.5")
    first.line("running")
    first.signal(signal.SIGKILL)
    first.end()
    second = start("worker", "--lease", "0.5", "--log-format", "json")
    log: Callable[[], str] = second.errors.read_text
    until(lambda: '"job_reaped"' in log())
    second.signal(signal.SIGINT)
    os.kill(second.process.pid, signal.SIGTERM)
    second.end()
    (reaped,) = [line for line in lines(log()) if line.get("event") == "job_reaped"]
    assert (reaped["job_id"], reaped["attempt"], reaped["state"], reaped["level"]) == ("a", 1, "waiting", "warning")


def test_a_reader_that_does_not_read_holds_up_no_job(shop: Shop, tmp_path: Path) -> None:
    import subprocess
    import sys

    shop.ok("enqueue", "send", "to=ann")
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(write, True)  # and it is full
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "worker", "--burst"], cwd=shop.folder, stderr=write, stdout=subprocess.PIPE,
        text=True, check=False, env={**os.environ, "HOLDFAST_APP": "shop:app"},
    )  # fmt: skip
    os.close(read)
    os.close(write)
    assert (done.returncode, "1 completed" in done.stdout) == (0, True)
