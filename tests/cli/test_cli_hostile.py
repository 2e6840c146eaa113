"""The command line, with jobs, errors and workers whose names would steer a terminal or forge a line."""

from __future__ import annotations

import asyncio
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop

from holdfast import Holdfast, Retry, State
from holdfast.store.contract import Session

TURNS = "\u061c\u200e\u200f" + "".join(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
HOSTILE = (
    "x" + "".join(map(chr, (*range(1, 32), *range(0x7F, 0xA0)))) + "\u2028\u2029\u200b\ufeff" + TURNS + "\U000e0041"
)
"""Every character that a terminal obeys, or that hides another."""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    with in_shop(tmp_path, monkeypatch) as shop:
        yield shop


def unsafe(text: str) -> set[str]:
    """Return the characters that nobody should be shown as they are."""
    return {
        each for each in text if each != "\n" and (unicodedata.category(each) in ("Cc", "Zl", "Zp") or each in TURNS)
    }


async def _fill(app: Holdfast) -> None:
    """A job that failed, one that waits, a worker and a schedule, all of them hostile."""

    @app.task(name=HOSTILE, queue=HOSTILE, retry=Retry(failures=1))
    async def hostile(what: str) -> None:
        raise type(HOSTILE, (Exception,), {})(HOSTILE)

    async with app:
        await hostile.options(job_id=HOSTILE, key=HOSTILE, headers={HOSTILE: HOSTILE}).enqueue(HOSTILE)
        await app.worker([HOSTILE], name=HOSTILE).run(burst=True)
        assert (await app.status(HOSTILE, HOSTILE)).state is State.FAILED
        await hostile.options(job_id=f"{HOSTILE}2", key=HOSTILE, delay=100).enqueue(HOSTILE)
        await app.queue(HOSTILE).limit_key(HOSTILE, 3)
        session = Session(id=HOSTILE, name=HOSTILE, host=HOSTILE, pid=1, queues=(HOSTILE,))
        await app.store.register(session)


COMMANDS = [
    ["jobs"], ["jobs", "show", HOSTILE, HOSTILE], ["jobs", "--queue", HOSTILE, "--key", HOSTILE], ["queues"],
    ["workers"], ["events"], ["tasks"], ["doctor"], ["chains"], ["schedules"], ["cancel", HOSTILE, HOSTILE],
    ["promote", HOSTILE, HOSTILE], ["delete", HOSTILE, f"{HOSTILE}3"], ["pause", HOSTILE],
    ["queues", "limit-key", HOSTILE, HOSTILE, "2"],
    ["enqueue", "--queue", HOSTILE, "--id", f"{HOSTILE}4", json.dumps(HOSTILE)],
    ["top"], ["top", "--json"], ["jobs", "show", HOSTILE, "none\x9b"], [HOSTILE], ["jobs", f"--{HOSTILE}"],
    ["requeue", HOSTILE, "--queue", HOSTILE, "--yes"],
]  # fmt: skip


def test_nothing_that_is_shown_steers_a_terminal(shop: Shop) -> None:
    asyncio.run(_fill(shop.app))
    assert shop.json("jobs", "show", HOSTILE, HOSTILE)["error"]["message"] == HOSTILE
    for words in COMMANDS:
        for more in ([], ["--json"]):
            result = shop.run(*words, *more)
            assert result.stdout + result.stderr
            assert unsafe(result.stdout + result.stderr) == set(), (words, more)


def test_a_traceback_that_is_asked_for_steers_no_terminal(shop: Shop) -> None:
    result = shop.run("jobs", "show", "q", HOSTILE, "--debug")
    assert "Traceback" in result.stderr
    assert unsafe(result.output) <= {"\t"}
