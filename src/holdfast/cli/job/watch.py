"""`holdfast jobs watch`: one job, live, until its end."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from types import TracebackType

import click
from rich.console import Console
from rich.status import Status

from ...app.app import Holdfast
from ...core.job import JobRecord
from ...core.state import State
from ...core.visible import visible
from ...errors import ConfigError
from ...json import form as json_form
from ..command import Command, NotDone, OptionValue, Source, json_option, source_options
from ..events import event_line
from ..output import console, json_line, say, say_note
from ..parse import as_seconds

INTERVAL = 0.2
OUTCOMES = {State.COMPLETED: 0, State.FAILED: 1, State.CANCELLED: 3}
"""The exit code of each end of a job."""
GONE, TIMED_OUT = 4, 124


@click.command(cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="[QUEUE] ID")
@source_options
@click.option("--run", type=int, metavar="N", help="This run of it; default: the one that answers for the id.")
@click.option("--timeout", callback=as_seconds, metavar="S", help="Give up after so long, with exit code 124.")
@json_option
def watch(source: Source, words: tuple[str, ...], as_json: bool, **given: OptionValue) -> None:
    """Watch one job until it is over.

    Its events as they come, and on a terminal its state, attempt and progress. Without a queue, all are looked at.
    Exit codes: 0 completed, 1 failed, 3 cancelled, 4 deleted or expired meanwhile, 124 not over in time.

    \b
    Examples:
      holdfast jobs watch mail mail-1 --app shop:app
      holdfast jobs watch mail-1 --timeout 10m && echo sent
    """
    if len(words) > 2:
        raise ConfigError(f"jobs watch takes an id, or a queue and an id, and not {len(words)} words")
    code = source.run(lambda app: _watch(app, words, as_json, **given))
    click.get_current_context().exit(code)


async def _watch(app: Holdfast, words: tuple[str, ...], as_json: bool, run: int | None, timeout: float | None) -> int:
    record = await (app.status(*words, run) if len(words) == 2 else _find(app, words[0]))
    deadline = None if timeout is None else time.monotonic() + timeout
    with StatusLine(console(err=True)) as line:
        return await WatchedRun(app, record, as_json, line).follow(deadline)


async def _find(app: Holdfast, job_id: str) -> JobRecord:
    """Return the job with this id, in whatever queue it is."""
    found = (await app.jobs(ids=[job_id])).jobs
    if not found:
        raise NotDone(f"there is no job {job_id}, or it has expired; `holdfast jobs` lists those there are")
    if len(found) > 1:
        raise ConfigError(f"{job_id}: name its queue, one of {', '.join(sorted(job.queue for job in found))}")
    return found[0]


class StatusLine:
    """A line below the events, on a terminal alone."""

    def __init__(self, out: Console) -> None:
        self._status = Status("", console=out) if out.is_terminal else None

    def __enter__(self) -> StatusLine:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, text: str) -> None:
        """Have this text in the line."""
        if self._status is not None:
            self._status.update(visible(text))


@dataclass
class WatchedRun:
    """One run of a job, and how far its events were told."""

    app: Holdfast
    record: JobRecord
    as_json: bool
    line: StatusLine
    position: str | None = None

    async def follow(self, deadline: float | None) -> int:
        """Tell what happens until the run is over; return the exit code."""
        while True:
            found = await self.app.store.get(self.record.queue, self.record.id, self.record.run)
            await self._tell_events()  # all of those that had come when the record was read
            if found is None:
                say_note(f"{self._name} is gone: it was deleted, or has expired")
                return GONE
            self.record = found
            if found.state in OUTCOMES:
                self._tell_end()
                return OUTCOMES[found.state]
            if deadline is not None and time.monotonic() > deadline:
                say_note(f"{self._name} is not over yet: {_standing(found)}")
                return TIMED_OUT
            self.line.show(f"{self._name}: {_standing(found)}")
            await asyncio.sleep(INTERVAL)

    @property
    def _name(self) -> str:
        return f"{self.record.queue}/{self.record.id} run {self.record.run}"

    async def _tell_events(self) -> None:
        while True:
            page = await self.app.store.events(self.position, queue=self.record.queue, id=self.record.id)
            self.position = page.position
            for event in page.events:
                if event.run == self.record.run:
                    json_line(json_form.event(event)) if self.as_json else click.echo(event_line(event, named=False))
            if not page.events:
                return

    def _tell_end(self) -> None:
        if self.as_json:
            json_line({"event": "ended", **json_form.job(self.record)})
            return
        error = self.record.error
        failed = self.record.state is State.FAILED and error is not None
        why = f": {error.type}: {error.message}" if failed and error is not None else ""
        say(f"{self._name}: {_standing(self.record)}{why}")


def _standing(job: JobRecord) -> str:
    """Return where a job stands, in words."""
    counters = job.counters
    parts = [str(job.state), f"attempt {counters.attempts}" if counters.attempts else ""]
    parts += [f"{counters.failures} failure{'s' * (counters.failures > 1)}" if counters.failures else ""]
    if job.progress is not None and job.state is State.ACTIVE:
        share = "" if job.progress.fraction is None else f"{job.progress.fraction:.0%} "
        parts.append(f"{share}{job.progress.message}".strip())
    return ", ".join(filter(None, parts))
