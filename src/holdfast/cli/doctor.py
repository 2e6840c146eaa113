"""`holdfast doctor`: what is wrong, and what to do."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from platform import python_version

import click

from ..app import Holdfast
from ..core.state import State
from ..errors import StoreError
from ..store import shown
from ..store.contract import Filter, QueueInfo, SessionInfo
from .group import Command
from .show import json_out, span, table
from .source import Source, json_option, must_exist, source_options

OLDEST_PYTHON = (3, 11)
MOST_SKEW_MS = 2000
LOOKED_AT = 1000


@dataclass(frozen=True)
class Check:
    """One thing that was looked at; `ok=None` when it could not be."""

    name: str
    ok: bool | None
    detail: str
    advice: str = ""
    warning: bool = False

    @property
    def word(self) -> str:
        """What the table says of it."""
        return "warning" if self.warning else {True: "ok", False: "problem", None: "not checked"}[self.ok]

    @property
    def to_do(self) -> str:
        """The advice, where it is needed."""
        return "" if self.word == "ok" else self.advice


@click.command(cls=Command)
@source_options
@json_option
def doctor(source: Source, as_json: bool) -> None:
    """Check Python, store, workers and jobs.

    Exit code 1 when something is wrong.

    \b
    Examples:
      holdfast doctor --app shop:app
      holdfast doctor --url sqlite:///jobs.db --json
    """
    checks = [_python()]
    if source.given:
        checks += asyncio.run(_collect(source.app()))
    else:
        checks.append(Check("store", None, "no store was named", "give --app module:app or --url sqlite:///jobs.db"))
    if as_json:
        json_out([{**asdict(check), "advice": check.to_do or None} for check in checks])
    else:
        table(
            ("check", "is", "detail", "what to do"),
            [(check.name, check.word, check.detail, check.to_do) for check in checks],
        )
    if any(check.ok is False for check in checks):
        click.get_current_context().exit(1)


async def _collect(app: Holdfast) -> list[Check]:
    return [check async for check in _store(app)]


def _python() -> Check:
    wanted = ".".join(map(str, OLDEST_PYTHON))
    return Check("python", sys.version_info >= OLDEST_PYTHON, f"Python {python_version()}", f"needs {wanted} or newer")


async def _store(app: Holdfast) -> AsyncIterator[Check]:
    """Yield what is to be said of a store, up to where it fails."""
    try:
        await must_exist(app)
        async with app:
            yield Check("store", True, f"{shown(app.store.url)} opens, and its schema is current")
            for found in await app.store.doctor():
                fine, warns = found.verdict != "problem", found.verdict == "warning"
                yield Check(f"store: {found.name}", fine, found.detail, found.advice, warns)
            yield await _clock(app)
            sessions, queues = await app.workers(), await app.queues()
            yield _workers(sessions, await app.store.now_ms())
            yield await _stuck(app, sessions)
            for check in _unserved(queues, sessions):
                yield check
    except StoreError as error:
        yield Check("store", False, str(error), "see the detail")


async def _clock(app: Holdfast) -> Check:
    skew = abs(await app.store.now_ms() - time.time() * 1000)
    told = f"the store's clock is {span(skew)} from this machine's"
    return Check("clock", skew <= MOST_SKEW_MS, told, "synchronise the clocks (NTP)")


def _workers(sessions: list[SessionInfo], now: int) -> Check:
    alive = [each for each in sessions if each.alive]
    gone = [f"{each.session.name} ({span(now - each.heard_at_ms)})" for each in sessions if not each.alive]
    told = f"{len(alive)} alive" + (f"; not heard any more: {', '.join(gone)}" if gone else "")
    return Check("workers", True, told)


async def _stuck(app: Holdfast, sessions: list[SessionInfo]) -> Check:
    """Jobs that are active under a worker that is gone come back once another worker reaps them."""
    alive = {each.session.id for each in sessions if each.alive}
    page = await app.store.jobs(Filter(states=(State.ACTIVE,)), limit=LOOKED_AT)
    stuck = [job for job in page.jobs if job.worker not in alive]
    if not stuck:
        return Check("stuck jobs", True, "no job is held by a worker that is gone")
    queues = ", ".join(sorted({job.queue for job in stuck}))
    first = f"{stuck[0].queue}/{stuck[0].id}"
    return Check(
        "stuck jobs", False, f"{len(stuck)} held by workers that are gone, such as {first}",
        f"run a worker for {queues}: it takes them back within seconds",
    )  # fmt: skip


def _unserved(queues: list[QueueInfo], sessions: list[SessionInfo]) -> list[Check]:
    """Queues in which jobs wait and that no live worker serves."""
    served = {queue for each in sessions if each.alive for queue in each.session.queues}
    return [
        Check(
            f"queue {info.name}", False, f"{info.counts['waiting']} jobs wait, and no worker serves it",
            f"holdfast worker module:app --queues {info.name}",
        )
        for info in queues
        if info.counts.get("waiting") and not info.settings.paused and info.name not in served
    ]  # fmt: skip
