"""The command line on chains: list, show, complete, delete."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shop import Shop, in_shop

from holdfast import Continued, Holdfast, Job
from holdfast.cli.output import say_more

SLOW = 3600


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop with one chain, which has come to its second job."""
    with in_shop(tmp_path, monkeypatch) as shop:
        asyncio.run(begin(shop.app))
        yield shop


async def begin(app: Holdfast) -> None:
    """The chain `c1` waits for its second job's time, and `w` waits for the chain."""
    last = app.registry.tasks["send"]

    @app.task(queue="mail")
    async def first(job: Job, to: str) -> Continued[str]:
        return job.continue_with(last.options(delay=SLOW), to)

    async with app:
        await first.options(job_id="c1").enqueue("ann")
        await app.worker(["mail"]).run(burst=True)
        await app.queue("waiters").enqueue(1, job_id="w", blockers=(("mail", "c1"),))
    del app.registry.tasks["first"]


def test_chains_are_listed(shop: Shop) -> None:
    (chain,) = shop.json("chains")["chains"]
    assert (chain["queue"], chain["id"], chain["task"]) == ("mail", "c1", "first")
    assert (chain["state"], chain["position"], chain["current"]["id"]) == ("scheduled", 1, "c1/1/1")
    assert "c1/1/1" in shop.ok("chains", "list", "--state", "scheduled")
    assert shop.json("chains", "--queue", "orders")["chains"] == []


def test_a_chain_is_shown_with_its_jobs(shop: Shop) -> None:
    shown = shop.json("chains", "show", "mail", "c1/1/1")
    assert (shown["id"], shown["result"]) == ("c1", None)
    assert [(job["position"], job["id"]) for job in shown["jobs"]] == [(0, "c1"), (1, "c1/1/1")]
    text = shop.ok("chains", "show", "mail", "c1")
    assert "c1/1/1" in text
    assert "position" in text
    detail = shop.ok("jobs", "show", "mail", "c1/1/1")
    assert "mail/c1 run 1, position 1" in detail
    assert "1 still open" in shop.ok("jobs", "show", "waiters", "w")


def test_a_chain_that_is_shown_in_part_says_so_and_how_to_go_on(shop: Shop) -> None:
    result = shop.run("chains", "show", "mail", "c1", "--limit", "1")
    assert "c1/1/1" in result.stdout
    found = re.fullmatch(r"there are more: --cursor (\S+)\n", result.stderr)
    assert found is not None, result.stderr
    rest = shop.run("chains", "show", "mail", "c1", "--limit", "1", "--cursor", found[1], "--json")
    told = json.loads(rest.stdout)
    assert ([job["id"] for job in told["jobs"]], told["cursor"], rest.stderr) == (["c1"], None, "")


def test_a_job_that_never_went_on_is_shown_as_a_chain_of_one(shop: Shop) -> None:
    shown = shop.json("chains", "show", "waiters", "w")
    assert [(job["position"], job["id"]) for job in shown["jobs"]] == [(0, "w")]


def test_a_cursor_is_told_as_a_shell_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    say_more('{"mail":7}')  # as Redis has them
    say_more(None)
    assert capsys.readouterr().err == """there are more: --cursor '{"mail":7}'\n"""


def test_a_chain_is_completed(shop: Shop) -> None:
    assert shop.ok("chains", "complete", "mail", "c1", "approved") == "mail/c1: completed\n"
    assert shop.json("chains", "show", "mail", "c1")["result"] == "approved"
    result = shop.run("chains", "complete", "mail", "c1", "--json")
    assert (result.exit_code, "it is over already" in result.stderr) == (1, True)


def test_a_chain_that_is_waited_for_is_deleted_by_cascade_alone(shop: Shop) -> None:
    result = shop.run("chains", "delete", "mail", "c1")
    assert result.exit_code == 1
    assert "mail/c1 is not deleted: waiters/w waits for it; --cascade deletes that too" in result.stderr
    told = shop.ok("chains", "delete", "mail", "c1", "--cascade")
    assert told == "mail/c1: deleted, and 1 that waited for it\n"
    assert shop.json("jobs")["jobs"] == []
    result = shop.run("chains", "delete", "mail", "c1")
    assert (result.exit_code, "there is no job mail/c1" in result.stderr) == (1, True)


def test_many_chains_are_deleted_and_what_is_left_is_told(shop: Shop) -> None:
    shop.ok("enqueue", "send", "to=ann", "--id", "a")
    shop.ok("enqueue", "send", "to=ann", "--id", "b")
    result = shop.run("chains", "delete", "mail", "a", "c1", "b")
    assert (result.exit_code, result.stdout) == (1, "mail/a: deleted\nmail/b: deleted\n")
    assert "mail/c1 is not deleted: waiters/w waits for it" in result.stderr
    told = shop.json("chains", "delete", "mail", "c1", "--cascade")
    assert told == [{"queue": "mail", "id": "c1", "reply": "ok", "chains": 2}]
