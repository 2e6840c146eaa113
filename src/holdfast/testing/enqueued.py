"""Assertions on what was enqueued, with the differences of those that come near."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack, cast

from ..app.app import Holdfast
from ..app.options import known_options
from ..app.task import AnyTask
from ..core.duration import Duration, Instant, instant_ms, to_ms
from ..core.job import JobRecord
from ..core.state import State
from ..errors import ConfigError

PAGE = 500
SHOWN = 5
"""How many near misses an error has."""


class EnqueuedOptions(TypedDict, total=False):
    """What else a job must have had: its options, and where it stands."""

    job_id: str
    delay: Duration
    run_at: Instant
    priority: int
    key: str | None
    tags: Sequence[str]
    """All of these tags; it may have others."""
    headers: Mapping[str, str]
    """All of these headers; it may have others."""
    state: State | str


@dataclass(frozen=True)
class WantedCall:
    """The job that a test expects."""

    task: AnyTask
    args: Sequence[object] | None
    kwargs: Mapping[str, object] | None
    containing: Mapping[str, object]
    options: EnqueuedOptions

    def __str__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.task.name}({', '.join(self._call())})" + (f" with {', '.join(options)}" if options else "")

    def _call(self) -> list[str]:
        if self._says_nothing:
            return [*(f"{name}={value!r}" for name, value in self.containing.items()), "..."]
        named = (f"{name}={value!r}" for name, value in (self.kwargs or {}).items())
        return [*map(repr, self.args or ()), *named]

    @property
    def _says_nothing(self) -> bool:
        return self.args is None and self.kwargs is None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that it must have, by name, as a worker would get them."""
        if self._says_nothing:
            return dict(self.containing)
        task = self.task
        return task.signature.arguments(task.encode(self.args or (), self.kwargs or {}), task.codec)

    def differences(self, job: JobRecord) -> list[str]:
        """Return in what a job is another than this one."""
        found, wanted = self.task.decode_args(job), self.arguments()
        wrong = [
            f"{name} is {found[name]!r}, not {value!r}" if name in found else f"{name} is not given"
            for name, value in wanted.items()
            if name not in found or found[name] != value
        ]
        if not self._says_nothing:
            wrong += [f"{name} is given, {value!r}" for name, value in found.items() if name not in wanted]
        return wrong + self._other_options(job)

    def _other_options(self, job: JobRecord) -> list[str]:
        wrong = []
        for name, wanted in self.options.items():
            found = _OPTIONS[name](job)
            if not _fits(name, found, wanted):
                wrong.append(f"{name} is {found!r}, not {wanted!r}")
        return wrong


_OPTIONS: dict[str, Any] = {
    "job_id": lambda job: job.id,
    "delay": lambda job: (job.run_at_ms - job.enqueued_at_ms) / 1000,
    "run_at": lambda job: job.run_at,
    "priority": lambda job: job.priority,
    "key": lambda job: job.key,
    "tags": lambda job: list(job.tags),
    "headers": lambda job: job.headers,
    "state": lambda job: str(job.state),
}


def _fits(name: str, found: Any, wanted: Any) -> bool:
    if name == "tags":
        return set(wanted) <= set(found)
    if name == "headers":
        return bool(dict(wanted).items() <= found.items())
    if name == "delay":
        return to_ms(found) == to_ms(wanted)
    if name == "run_at":
        return instant_ms(found) == instant_ms(wanted)
    return bool(found == wanted)


async def assert_enqueued(
    app: Holdfast,
    task: AnyTask,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    containing: Mapping[str, object] | None = None,
    times: int | None = None,
    **options: Unpack[EnqueuedOptions],
) -> JobRecord:
    """Return the newest job of the task with these arguments and options, in whatever state; raise when there is none.

    `args` and `kwargs` are the whole call, as it was made; `containing` is some of its arguments, by name. With
    `times`, there must be exactly so many such jobs.
    """
    if times is not None and times < 1:
        raise ConfigError(f"times={times!r}: at least 1; assert_not_enqueued says that there is none")
    wanted = WantedCall(task, args, kwargs, containing or {}, _known(options))
    jobs = await _jobs(app)
    of_task = [job for job in jobs if _is_of(task, job)]
    found = [job for job in of_task if not wanted.differences(job)]
    if not found:
        raise AssertionError(_missing(wanted, of_task, jobs))
    if times is not None and len(found) != times:
        raise AssertionError(f"{wanted} was enqueued {_times(len(found))}, not {_times(times)}{_list(found)}")
    return found[0]


async def assert_not_enqueued(
    app: Holdfast,
    task: AnyTask,
    args: Sequence[object] | None = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    containing: Mapping[str, object] | None = None,
    **options: Unpack[EnqueuedOptions],
) -> None:
    """Raise when there is a job of the task with these arguments and options, in whatever state."""
    wanted = WantedCall(task, args, kwargs, containing or {}, _known(options))
    found = [job for job in await _jobs(app) if _is_of(task, job) and not wanted.differences(job)]
    if found:
        raise AssertionError(f"{wanted} was enqueued {_times(len(found))}{_list(found)}")


def _known(options: EnqueuedOptions) -> EnqueuedOptions:
    return cast(EnqueuedOptions, known_options("assert_enqueued", options, EnqueuedOptions))


def _is_of(task: AnyTask, job: JobRecord) -> bool:
    return job.task == task.name and job.queue == task.queue


async def _jobs(app: Holdfast) -> list[JobRecord]:
    """Return every job of the store, newest first."""
    found: list[JobRecord] = []
    async with app:
        cursor: str | None = None
        while True:
            page = await app.jobs(limit=PAGE, cursor=cursor)
            found += page.jobs
            cursor = page.cursor
            if cursor is None:
                return found


def _missing(wanted: WantedCall, of_task: list[JobRecord], jobs: list[JobRecord]) -> str:
    """Return what there is in place of the job, nearest first."""
    if not of_task:
        counts = Counter(job.task or f"queue {job.queue}" for job in jobs)
        there = ", ".join(f"{count} of {name}" for name, count in counts.most_common()) or "no job at all"
        return f"{wanted} was not enqueued; there is {there}"
    near = sorted(((wanted.differences(job), job) for job in of_task), key=lambda each: len(each[0]))
    lines = [f"\n  {_name(job)}: {'; '.join(wrong)}" for wrong, job in near[:SHOWN]]
    more = f"\n  and {len(near) - SHOWN} others" if len(near) > SHOWN else ""
    return f"{wanted} was not enqueued; of {wanted.task.name} there is{''.join(lines)}{more}"


def _list(jobs: list[JobRecord]) -> str:
    return "".join(f"\n  {_name(job)}" for job in jobs[:SHOWN])


def _name(job: JobRecord) -> str:
    return f"{job.queue}/{job.id} ({job.state})"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
