"""The layout of the log, as the docs tell it to readers in other languages: commands, decoder and promises."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from places import place
from redis.asyncio import Redis
from support import burst, working

from holdfast import Holdfast, Job, Permanent, Retry, State

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "redis.md").read_text()
SECTION = PAGE.split("## The log, for readers in other languages\n")[1].split("\n## ")[0]


def block(kind: str) -> str:
    """Return the block of code of that section."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)
    return str(found)


def decoder() -> Any:
    """Return the function of the docs."""
    names: dict[str, Any] = {}
    exec(compile(block("python"), "redis.md", "exec"), names)
    return names["decoded"]


@asynccontextmanager
async def filled(folder: Path) -> AsyncIterator[tuple[Holdfast, Redis, str]]:
    """A log with events of every kind, a client of its own, and the namespace."""
    with place("redis", folder) as url:
        app = Holdfast(url)
        app.queue("mail", history="payloads")
        await happen(app)
        client = Redis.from_url(url.partition("?")[0])
        try:
            async with app:
                yield app, client, url.rpartition("=")[2]
        finally:
            await client.aclose()


async def happen(app: Holdfast) -> None:
    @app.task(queue="mail", retry=Retry(failures=2, initial=0.01))
    async def work(job: Job, what: str) -> str:
        if what == "report":
            await job.progress(0.5, "half")
        if what == "fail":
            raise ValueError("no good")
        if what == "never":
            raise Permanent("never")
        return what

    async with app:
        for number, what in enumerate(("fine", "report", "fail", "never")):
            await work.options(key=f"tenant {number}", priority=number - 2).enqueue(what)
        for id in ("0" * 32, "\x01mark", "\x02mark", "ünï"):
            await app.queue("mail").enqueue({"id": id}, job_id=id, delay=3600)
        await app.cancel("mail", "ünï")
        await app.queue("mail").delete("\x01mark")
    async with working(app):
        await burst(app)


async def test_the_reader_of_the_docs_reads_what_the_store_reads(tmp_path: Path) -> None:
    decoded = decoder()
    async with filled(tmp_path) as (app, client, namespace):
        events = [event async for event in app.events(queue="mail")]
        entries = await client.xrange(f"{{{namespace}:mail}}:events")
        epoch = (await client.hget(f"{{{namespace}:mail}}:queue", "epoch")).decode()
        assert [id.decode() for id, _ in entries] == [f"{epoch}-{number}" for number in range(len(entries))]
        assert len(entries) == len(events)
        for event, (_, fields) in zip(events, entries, strict=True):
            read = decoded(fields)
            for name in ("id", "transition", "state", "run", "attempt", "at_ms", "run_at_ms", "priority", "wait_ms"):
                assert read[name] == getattr(event, name), (name, event)
            for name in ("run_ms", "task", "worker", "payload"):
                assert read[name] == getattr(event, name), (name, event)
            for name in ("key", "cause", "error_type", "progress"):
                assert read.get(name) == getattr(event, name), (name, event)
            counters = event.counters
            told = [counters.failures, counters.stalls, counters.timeouts, counters.releases]
            assert read.get("counters", [0] * 4) == told
            if "signature" in read:
                assert read["signature"] == event.error_signature
    seen = {event.transition for event in events}
    assert {"enqueue", "claim", "progress", "complete", "retry", "fail", "cancel", "delete"} <= seen
    assert {event.state for event in events} > {None, State.FAILED, State.CANCELLED}


async def test_every_state_and_name_of_the_docs_is_one_of_the_store(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    exec(compile(block("python"), "redis.md", "exec"), names)
    assert set(names["STATES"].values()) == set(State)


@pytest.mark.parametrize("line", block("console").splitlines())
async def test_the_commands_of_the_docs_are_commands(line: str, tmp_path: Path) -> None:
    words = shlex.split(line.removeprefix("$ redis-cli "))
    async with filled(tmp_path) as (_, client, namespace):
        words = [word.replace("{holdfast", f"{{{namespace}") for word in words]
        if words[0] == "XREAD":
            words[2] = "1"  # nothing new comes
            assert await client.execute_command(*words) in (None, [], {})
        else:
            assert await client.execute_command(*words)
