"""What the ledger and the log say, put in order for the checks: a run of a million jobs fits in memory."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from holdfast.core.action import OPERATE
from holdfast.core.event import Event
from holdfast.testing.replay import Replay

from . import ledger, record
from .plan import AT_ONCE, PER_KEY

Id = tuple[str, str]
RunKey = tuple[str, str, int]


class Attempt:
    """One start of a handler, by its own lines: it was alive at each of them."""

    __slots__ = ("attempt", "began", "end", "last", "run", "word", "worker")

    def __init__(self, run: int, attempt: int, worker: str, began: int, word: str) -> None:
        self.run, self.attempt, self.worker, self.began, self.word = run, attempt, worker, began, word
        self.last = began
        self.end: str | None = None
        """How it ended, by its own word: `None` when it never said."""


class Beats:
    """The heartbeats of one worker process, session by session."""

    def __init__(self, lines: list[tuple[int, str]], lease_us: int) -> None:
        self._times = sorted(lines)
        self._lease = lease_us
        self._until = [0] * len(lines)
        following = None
        for index in range(len(lines) - 1, -1, -1):
            at, letter = self._times[index]
            until = at + lease_us
            held = following is not None and following[0] <= until and following[1] == "H"
            self._until[index] = self._until[index + 1] if held else until
            following = (at, letter)

    def until(self, at: int) -> int:
        """Return until when, at the least, the worker was heard that held a lease at this time."""
        index = bisect.bisect_right(self._times, (at, "Z")) - 1
        return self._until[index] if index >= 0 else at


class Book:
    """Everything that was written down, by job."""

    def __init__(self, folder: Path, lease: float) -> None:
        self.attempts: dict[Id, list[Attempt]] = defaultdict(list)
        self.acknowledged: dict[Id, tuple[str, str, int]] = {}
        self.cancelled: dict[RunKey, int] = {}
        self.waits: dict[RunKey, int] = {}
        self.answers: dict[RunKey, str] = {}
        self.faults: list[tuple[int, int, str]] = []
        beats: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for words in ledger.read(folder):
            letter, at = words[0], int(words[1])
            if letter in "BTEP":
                self._attempt(letter, at, *words[2:])
            elif letter in "SH":
                beats[words[2]].append((at, letter))
            else:
                self._other(letter, at, words[2:])
        self.beats = {worker: Beats(lines, round(lease * 1e6)) for worker, lines in beats.items()}

    def _attempt(
        self, letter: str, at: int, queue: str, id: str, run: str, attempt: str, worker: str, word: str
    ) -> None:
        known = self.attempts[queue, id]
        if letter in "BP":
            known.append(Attempt(int(run), int(attempt), worker, at, word))
            known[-1].end = "ok" if letter == "P" else None
            return
        for each in known:
            if (each.run, each.attempt, each.worker) == (int(run), int(attempt), worker):
                each.last = max(each.last, at)
                each.end = word if letter == "E" else each.end

    def _other(self, letter: str, at: int, words: list[str]) -> None:
        if letter == "F":
            self.faults.append((at, int(words[1]), words[0]))
            return
        run = (words[0], words[1], int(words[2]))
        if letter == "A":
            self.acknowledged[run[:2]] = (words[3], words[4], run[2])
        elif letter == "C":
            self.cancelled[run] = at
        elif letter == "W":
            self.waits[run] = at
        elif letter == "R":
            self.answers[run] = words[3]

    def held_until(self, attempt: Attempt) -> int:
        """Return until when the attempt was alive and its worker held a lease: from then on, others may."""
        beats = self.beats.get(attempt.worker)
        return min(attempt.last, beats.until(attempt.began)) if beats else attempt.began

    def each(self) -> Iterator[tuple[Id, Attempt]]:
        """Yield every attempt with its job."""
        for id, attempts in self.attempts.items():
            for attempt in attempts:
                yield id, attempt


class Run:
    """One run, by the log."""

    __slots__ = ("at_ms", "counters", "ended", "ends", "enqueues", "errors", "state", "task")

    def __init__(self) -> None:
        self.task: str | None = None
        self.ends = self.enqueues = self.at_ms = 0
        self.ended: str | None = None
        self.state: str | None = None
        self.counters = None
        self.errors: list[str] | None = None


class Log:
    """What the log of the store says of every run."""

    def __init__(self, folder: Path) -> None:
        self.runs: dict[RunKey, Run] = {}
        self.lost: set[tuple[str, str, int, int]] = set()
        """Attempts whose worker, or whose process, vanished."""
        self.replay = Replay(concurrency={"keyed": AT_ONCE}, key_concurrency={"keyed": PER_KEY})
        for event in record.events(folder):
            self._take(event)

    def _take(self, event: Event) -> None:
        self.replay.add(event)
        if event.transition == OPERATE:
            return
        key = (event.queue, event.id, event.run)
        run = self.runs.setdefault(key, Run())
        run.task, run.counters, run.at_ms = event.task, event.counters, event.at_ms
        run.state = None if event.state is None else str(event.state)
        run.enqueues += event.transition in ("enqueue", "requeue")
        if record.step(event) < 0:
            run.ends, run.ended = run.ends + 1, run.state
        if event.transition == "reap" or (event.transition in ("release", "fail") and event.cause == "stall"):
            self.lost.add((*key, event.attempt))
        if event.transition in ("retry", "fail") and event.cause == "failure" and event.error_type:
            run.errors = [*(run.errors or ()), event.error_type]
