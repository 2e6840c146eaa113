"""The verdict: what every check found, and the figures."""

from __future__ import annotations

import bisect
import itertools
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from holdfast import Holdfast
from holdfast.core.job import JobRecord

from .board import app_at
from .book import Book, Log
from .checks import CHECKS
from .field import Field

PAGE = 1000
OUTAGES = ("kill_server", "pause_server", "full_disk", "clock_step", "write_lock")
Figures = tuple[float, float]


@dataclass
class Verdict:
    """What became of one torture. `broken` has, by check, a sentence for each job of which a promise was not held."""

    store: str
    broken: dict[str, list[str]] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    left_out: dict[str, str] = field(default_factory=dict)
    jobs: int = 0
    attempts: int = 0
    events: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    restarted: int = 0
    """Attempts whose worker or process vanished, so that another followed."""
    doubled: int = 0
    """Runs whose handler came to its end more than once."""
    waits: int = 0
    worker_recovery: Figures = (0.0, 0.0)
    store_recovery: Figures = (0.0, 0.0)
    attacked: float = 0.0
    seconds: float = 0.0

    @property
    def held(self) -> bool:
        """Whether every promise was held."""
        return not any(self.broken.values())


async def judge(field: Field, stuck: list[str]) -> Verdict:
    """Return what the ledger, the log and the store say together."""
    plan = field.plan
    async with app_at(field.place.url(None), field.board) as app:
        records, since_ms = await _records(app), await app.store.now_ms() - round(plan.keep * 500)
    book, log = Book(plan.path, plan.lease), Log(plan.path)
    verdict = Verdict(plan.store, {"everything comes to an end": stuck})
    for check in CHECKS:
        verdict.broken[check.__name__.replace("_", " ")] = list(check(book, log))
    verdict.broken["a reader sees every event"] = (plan.path / "gaps").read_text().splitlines()
    log.replay.compare(records)
    verdict.broken["the log replays to the state"] = log.replay.problems
    verdict.broken["what is kept is listed"] = list(_unlisted(records, log, since_ms))
    _figures(verdict, book, log, plan.lease)
    return verdict


async def _records(app: Holdfast) -> list[JobRecord]:
    """Return every job that the store lists."""
    page = await app.jobs(limit=PAGE)
    found = page.jobs
    while page.cursor is not None:
        page = await app.jobs(limit=PAGE, cursor=page.cursor)
        found += page.jobs
    return found


def _unlisted(records: list[JobRecord], log: Log, since_ms: int) -> Iterator[str]:
    """Yield runs that ended lately, so that they are kept, and that the store does not list."""
    listed = {(record.queue, record.id, record.run) for record in records}
    for key, run in log.runs.items():
        if run.state is not None and run.at_ms > since_ms and key not in listed:
            yield f"{key} is {run.state} by the log, and the store does not list it"


def _figures(verdict: Verdict, book: Book, log: Log, lease: float) -> None:
    verdict.faults = Counter(kind for *_, kind in book.faults)
    verdict.jobs, verdict.events = len(log.runs), log.replay.events
    verdict.ends = Counter(run.ended or "unfinished" for run in log.runs.values())
    verdict.attempts = sum(map(len, book.attempts.values()))
    verdict.restarted, verdict.waits = len(log.lost), len(book.waits)
    verdict.doubled = sum(_doubled(book))
    verdict.worker_recovery = _summary([gap / lease / 1e6 for gap in _gaps(book, log)])
    verdict.store_recovery = _summary([gap / lease / 1e6 for gap in _outages(book)])


def _doubled(book: Book) -> Iterator[int]:
    """Yield for each run how often its handler came to its end beyond the first time."""
    for attempts in book.attempts.values():
        if len(attempts) > 1:
            done = Counter(attempt.run for attempt in attempts if attempt.end == "ok")
            yield sum(count > 1 for count in done.values())


def _gaps(book: Book, log: Log) -> Iterator[int]:
    """Yield how long it took from the last line of an attempt whose worker vanished to the next attempt."""
    for (queue, id), attempts in book.attempts.items():
        ordered = sorted(attempts, key=lambda attempt: (attempt.run, attempt.attempt)) if len(attempts) > 1 else ()
        for before, after in itertools.pairwise(ordered):
            if before.run == after.run and before.end is None and (queue, id, before.run, before.attempt) in log.lost:
                yield max(0, after.began - before.last)


def _outages(book: Book) -> Iterator[int]:
    """Yield how long it took from the end of an outage of the store to the next begin of any handler."""
    begins = array("q", sorted(attempt.began for _, attempt in book.each()))
    for _, ended, kind in book.faults:
        if kind in OUTAGES and (index := bisect.bisect(begins, ended)) < len(begins):
            yield begins[index] - ended


def _summary(values: list[float]) -> Figures:
    return (median(values), max(values)) if values else (0.0, 0.0)
