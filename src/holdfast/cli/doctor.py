"""`holdfast doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from platform import python_version

import click

import holdfast_queue

from ..app.app import Holdfast
from ..core.state import State
from ..core.version import VERSION
from ..distribution import DISTRIBUTION
from ..errors import StoreError
from ..store import shown
from ..store.contract import Filter, QueueInfo, SessionInfo, knows
from .command import Command, Source, json_option, must_exist, source_options
from .output import duration, json_out, table

OLDEST_PYTHON = (3, 11)
MOST_SKEW_MS = 2000
LOOKED_AT = 1000


@dataclass(frozen=True)
class DoctorCheck:
    """The result of one check; `ok=None` when it could not be made."""

    name: str
    ok: bool | None
    detail: str
    advice: str = ""
    warning: bool = False

    @property
    def word(self) -> str:
        """The verdict as the table shows it."""
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
    checks = [_python(), _package()]
    if source.given:
        checks += asyncio.run(_collect(source.app(), source.worker_command))
    else:
        checks.append(
            DoctorCheck("store", None, "no store was named", "give --app module:app or --url sqlite:///jobs.db")
        )
    if as_json:
        json_out([{**asdict(check), "advice": check.to_do or None} for check in checks])
    else:
        table(
            ("check", "is", "detail", "what to do"),
            [(check.name, check.word, check.detail, check.to_do) for check in checks],
        )
    if any(check.ok is False for check in checks):
        click.get_current_context().exit(1)


async def _collect(app: Holdfast, worker: str) -> list[DoctorCheck]:
    return [check async for check in _store(app, worker)]


def _python() -> DoctorCheck:
    wanted = ".".join(map(str, OLDEST_PYTHON))
    return DoctorCheck(
        "python", sys.version_info >= OLDEST_PYTHON, f"Python {python_version()}", f"needs {wanted} or newer"
    )


def _package() -> DoctorCheck:
    """Say which distribution this is. Where another one has our import name, the command does not start at all."""
    place = Path(holdfast_queue.__file__).parent
    return DoctorCheck("package", True, f"{DISTRIBUTION} {VERSION}, in {place}")


async def _store(app: Holdfast, worker: str) -> AsyncIterator[DoctorCheck]:
    """Yield the checks of a store, up to the first that raises; `worker` is the command that starts one."""
    try:
        await must_exist(app)
        async with app:
            yield DoctorCheck("store", True, f"{shown(app.store.url)} opens, and its schema is current")
            for found in await app.store.doctor():
                fine, warns = found.verdict != "problem", found.verdict == "warning"
                yield DoctorCheck(f"store: {found.name}", fine, found.detail, found.advice, warns)
            yield await _clock(app)
            sessions, queues = await app.workers(), await app.queues()
            yield _workers(sessions, await app.store.now_ms())
            yield await _stuck(app, sessions)
            for check in _unserved(queues, sessions, worker):
                yield check
            for info in queues:
                for check in await _unknown(app, info, sessions):
                    yield check
    except StoreError as error:
        yield DoctorCheck("store", False, str(error), "see the detail")


async def _clock(app: Holdfast) -> DoctorCheck:
    skew = abs(await app.store.now_ms() - time.time() * 1000)
    told = f"the store's clock is {duration(skew)} from this machine's"
    return DoctorCheck("clock", skew <= MOST_SKEW_MS, told, "synchronise the clocks (NTP)")


def _workers(sessions: list[SessionInfo], now: int) -> DoctorCheck:
    alive = [each for each in sessions if each.alive]
    gone = [f"{each.session.name} ({duration(now - each.heard_at_ms)})" for each in sessions if not each.alive]
    told = f"{len(alive)} alive" + (f"; not heard any more: {', '.join(gone)}" if gone else "")
    return DoctorCheck("workers", True, told)


async def _stuck(app: Holdfast, sessions: list[SessionInfo]) -> DoctorCheck:
    """Check for jobs of vanished workers: they run again once another worker reaps them."""
    alive = {each.session.id for each in sessions if each.alive}
    page = await app.store.jobs(Filter(states=(State.ACTIVE,)), limit=LOOKED_AT)
    stuck = [job for job in page.jobs if job.worker not in alive]
    if not stuck:
        return DoctorCheck("stuck jobs", True, "no job is held by a worker that is gone")
    queues = ", ".join(sorted({job.queue for job in stuck}))
    first = f"{stuck[0].queue}/{stuck[0].id}"
    return DoctorCheck(
        "stuck jobs", False, f"{len(stuck)} held by workers that are gone, such as {first}",
        f"run a worker for {queues}, or holdfast upkeep: it takes them back within seconds",
    )  # fmt: skip


def _unserved(queues: list[QueueInfo], sessions: list[SessionInfo], worker: str) -> list[DoctorCheck]:
    """Return a check for each queue in which jobs wait and that no live worker serves."""
    served = {queue for each in sessions if each.alive for queue in each.session.queues}
    return [
        DoctorCheck(
            f"queue {info.name}", False, f"{info.counts['waiting']} jobs wait, and no worker serves it",
            f"{worker} --queues {info.name}",
        )
        for info in queues
        if info.counts.get("waiting") and not info.settings.paused and info.name not in served
    ]  # fmt: skip


async def _unknown(app: Holdfast, info: QueueInfo, sessions: list[SessionInfo]) -> list[DoctorCheck]:
    """Return a check for each task whose jobs wait in a queue, none of whose workers knows the task."""
    serving = [each.session for each in sessions if each.alive and info.name in each.session.queues]
    waits = info.counts.get("waiting", 0) + info.counts.get("scheduled", 0)  # they come back after a while
    if not waits or not serving or any(session.tasks is None for session in serving):
        return []
    which = Filter(queue=info.name, states=(State.WAITING, State.SCHEDULED))
    found = Counter(job.task for job in (await app.store.jobs(which, limit=LOOKED_AT)).jobs)
    strange = [task for task in found if not any(knows(session, info.name, task) for session in serving)]
    return [_strange(info.name, task, found[task]) for task in sorted(strange, key=str)]


def _strange(queue: str, task: str | None, count: int) -> DoctorCheck:
    if task is None:
        told = f"{count} plain jobs wait, and no worker alive has a handler for them"
        return DoctorCheck(
            f"queue {queue}", False, told, f'run a worker whose app has app.queue("{queue}", handler=...)'
        )
    told = f"{count} jobs of task {task} wait, and no worker alive knows it"
    return DoctorCheck(f"queue {queue}", False, told, "run a worker whose app declares it, or cancel them")
