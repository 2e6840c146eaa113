"""A history drawn by chance: customers by the hour of the day, errors, and workers that vanish."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from holdfast import ErrorRecord, Event
from holdfast.core.policy import Counters
from holdfast.core.state import State

HOUR = 3_600_000
LEASE_MS = 15_000


@dataclass(frozen=True)
class DrawnQueue:
    """What a queue is like: jobs an hour, how long one takes, how often it raises, and whose jobs there are."""

    name: str
    task: str
    per_hour: float
    run_ms: float
    wrong: float
    error: ErrorRecord
    keys: tuple[str | None, ...] = (None,)


@dataclass
class _Job:
    id: str
    run: int
    queue: DrawnQueue
    key: str | None
    run_at: int
    attempt: int = 0
    counters: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("failures", "stalls"), 0))
    worker: str = ""
    claimed_at: int = 0


class DrawnHistory:
    """A store and its workers, of which only the log is real. The same seed draws the same history."""

    def __init__(
        self, seed: int, begin: datetime, hours: float, queues: tuple[DrawnQueue, ...], slots: int = 1
    ) -> None:
        self._random = random.Random(seed)
        self._begin = self._now = int(begin.timestamp() * 1000)
        self._end = self._begin + int(hours * HOUR)
        self._queues = queues
        self._free = [f"worker-{number}" for number in (1, 2, 3) for _ in range(slots)]
        self._waiting: deque[_Job] = deque()
        self._agenda: list[tuple[int, int, str, Any]] = []
        self._count = 0
        self.events: list[Event] = []

    def draw(self) -> list[Event]:
        """Return the whole log."""
        for queue in self._queues:
            self._plan(self._begin, "arrive", queue)
        while self._agenda and self._agenda[0][0] < self._end:
            self._now, _, act, subject = heapq.heappop(self._agenda)
            getattr(self, f"_{act}")(subject)
            while self._waiting and self._free:
                self._claim(self._waiting.popleft())
        return self.events

    def _plan(self, at: int, act: str, subject: Any) -> None:
        self._count += 1
        heapq.heappush(self._agenda, (at, self._count, act, subject))

    def _tell(self, job: _Job, transition: str, state: State, **more: Any) -> None:
        self.events.append(
            Event(
                position=f"e:{len(self.events) + 1}", at_ms=self._now, queue=job.queue.name, id=job.id, run=job.run,
                attempt=job.attempt, transition=transition, state=state, task=job.queue.task, key=job.key,
                run_at_ms=job.run_at, counters=Counters(**job.counters), **more,
            )
        )  # fmt: skip

    def _arrive(self, queue: DrawnQueue) -> None:
        hour = self._now / HOUR % 24
        busy = queue.per_hour * (1 + 0.9 * math.sin((hour - 9) / 24 * 2 * math.pi))
        self._plan(self._now + max(1, int(self._random.expovariate(busy / HOUR))), "arrive", queue)
        self._count += 1
        job = _Job(f"{queue.name}-{self._count}", self._count, queue, self._random.choice(queue.keys), self._now)
        self._tell(job, "enqueue", State.WAITING)
        self._waiting.append(job)

    def _claim(self, job: _Job) -> None:
        job.worker = self._free.pop(self._random.randrange(len(self._free)))
        job.attempt += 1
        job.claimed_at = self._now
        self._tell(job, "claim", State.ACTIVE, worker=job.worker, wait_ms=self._now - job.run_at)
        if self._random.random() < 0.004:
            self._plan(self._now + LEASE_MS + self._random.randrange(5000), "reap", job)
        else:
            self._plan(self._now + max(1, int(self._random.lognormvariate(0, 0.8) * job.queue.run_ms)), "settle", job)

    def _settle(self, job: _Job) -> None:
        ended = {"worker": job.worker, "run_ms": self._now - job.claimed_at}
        self._free.append(job.worker)
        if self._random.random() >= job.queue.wrong:
            self._tell(job, "complete", State.COMPLETED, **ended)
            return
        job.counters["failures"] += 1
        error = job.queue.error
        ended |= {"cause": "failure", "error_type": error.type, "error_signature": error.signature}
        if job.attempt == 3:
            self._tell(job, "fail", State.FAILED, **ended)
            return
        job.run_at = self._now + 20_000 * job.attempt
        self._tell(job, "retry", State.SCHEDULED, **ended)
        self._plan(job.run_at, "wake", job)

    def _reap(self, job: _Job) -> None:
        job.counters["stalls"] += 1
        self._free.append(job.worker)
        job.run_at = self._now
        self._tell(job, "reap", State.WAITING, cause="stall", worker=job.worker, run_ms=self._now - job.claimed_at)
        self._waiting.append(job)

    def _wake(self, job: _Job) -> None:
        self._waiting.append(job)


SHOP = (
    DrawnQueue(
        "payments", "charge_card", 90, 4_000, 0.03,
        ErrorRecord(type="BankDown", message="the bank did not answer within 5 s"),
        ("acme", "acme", "globex", "initech"),
    ),
    DrawnQueue("mail", "send_receipt", 160, 800, 0.06, ErrorRecord(type="OSError", message="mailbox full")),
    DrawnQueue(
        "photos", "resize_photo", 40, 25_000, 0.01, ErrorRecord(type="ValueError", message="no picture"),
        ("acme", "globex", "umbrella"),
    ),
)  # fmt: skip
"""A shop's queues."""
