"""What the functions reply, as the contract has it. Columns are taken by the names that the functions' headers give."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import repeat
from typing import Any

import msgspec

from ....core.envelope import EMPTY, opened
from ....core.job import ErrorRecord
from ....core.limit import QueueSettings
from ....core.state import State
from ....core.transition import Reply
from ...contract import Abort, Answer, Claimed, Lease, NewJob, ReapedJob, Settled, Turn
from ...rows import FRESH, claimed, corrupt, readable_settings, reaped, stored_error
from .entry import entry

Row = Sequence[Any]
_COMPLETED = Settled(Reply.OK, State.COMPLETED)
MOST_SETTINGS = 1000
"""So many settings are remembered as they were last decoded."""


class AbortReply(msgspec.Struct, frozen=True):
    """A handler that must be told to stop."""

    queue: str
    id: str
    run: int
    attempt: int
    reason: Abort


class TurnSummary(msgspec.Struct, frozen=True):
    """What the last row of a turn says of the turn as a whole."""

    now: int
    evicted: bool = False
    late: bool = False
    words: list[str] | None = None
    """A word for each settlement; `None`: each was completed."""
    next: int | None = None
    more: bool = False
    settings: dict[str, msgspec.Raw] | None = None
    aborts: list[AbortReply] | None = None
    suspects: tuple[str, ...] = ()
    server: str = ""
    """When the server was started that answers: another one may have forgotten what was settled."""


_turn = msgspec.json.Decoder(TurnSummary).decode


def queued(jobs: Sequence[NewJob], runs: Sequence[int]) -> list[Answer]:
    """Return the answers to jobs that are all new and wait, by the numbers of their runs."""
    return [
        Answer(status="queued", id=job.id, run=run, state=State.WAITING) for job, run in zip(jobs, runs, strict=True)
    ]


def answer(row: Row, *, ours: bool = False) -> Answer:
    """Return the answer to one job, from a row of the type `answer`.

    `ours` says that the run that holds the id was put there by this call.
    """
    status, id, run, state, result, error = row
    if ours:
        status = "queued"
    if status == "queued" and error is None:
        return Answer(status=status, id=id, run=run, state=State(state))
    return Answer(
        status=status, id=id, run=run, state=State(state), result=None if result is None else bytes(result),
        error=stored_error(bytes(error)) if error is not None else None,
    )  # fmt: skip


class TurnReader:
    """Decodes the replies of turns; settings that it has seen before cost nothing."""

    def __init__(self) -> None:
        self._settings: dict[bytes, QueueSettings] = {}
        self._links: dict[str, tuple[str, int]] = {}
        """By session: which server answered it last, and how many connections had been made by then."""

    def turn(
        self, rows: Sequence[Row], count: int, session: str, connections: int
    ) -> tuple[Turn, list[tuple[Lease, ErrorRecord]]]:
        """Return the turn, and the claimed jobs that cannot be read."""
        reply = _turn(rows[-1][0])
        if reply.evicted:
            self.forget(session)
            return Turn(evicted=True, now_ms=reply.now), []
        jobs, broken = claimed_jobs(rows[:-1], reply.now)
        link = (reply.server, connections)
        known, self._links[session] = self._links.get(session, link), link
        return Turn(
            late=reply.late,
            settled=[_COMPLETED] * count if reply.words is None else [settled(word) for word in reply.words],
            claimed=jobs,
            next_at_ms=reply.next,
            now_ms=reply.now,
            settings={queue: self._decoded(queue, bytes(raw)) for queue, raw in (reply.settings or {}).items()},
            more=reply.more,
            suspects=reply.suspects,
            aborts=aborts(reply.aborts),
            unsure=known != link,
        ), broken

    def forget(self, session: str) -> None:
        """Remember nothing of a session that is over."""
        self._links.pop(session, None)

    def _decoded(self, queue: str, raw: bytes) -> QueueSettings:
        known = self._settings.get(raw)
        if known is None:
            if len(self._settings) > MOST_SETTINGS:
                self._settings.clear()
            known = self._settings[raw] = readable_settings(queue, raw)
        return known


def aborts(found: Iterable[AbortReply] | None) -> list[tuple[Lease, Abort]]:
    """Return which handlers must be told to stop, and why."""
    return [(Lease(each.queue, each.id, each.run, each.attempt), each.reason) for each in found or ()]


def settled(word: str) -> Settled:
    """Return what became of one settlement: `ok:` and a state, or another reply."""
    reply, _, state = word.partition(":")
    return Settled(Reply(reply), State(state) if state else None)


class _ClaimedColumns:
    """Where the columns of a claimed job are, in the rows of a function."""

    def __init__(self, function: str, timeouts: str = "timeouts") -> None:
        """`timeouts`: the column that counts how often it ran out of time."""
        found = entry(function)
        self.lease = found.columns("queue", "id", "run", "attempts")
        self.fields = found.columns(
            "task", "priority", "key", "run_at_ms", "enqueued_at_ms", "failures", "stalls", timeouts, "releases",
            "overrides", "envelope", "error", "checkpoint", "payload",
        )  # fmt: skip
        self.chain = found.columns("chain_queue", "chain_id", "chain", "place")
        self.rest = found.columns("timeout_ms", "company", "snoozes", "spared")

    def job(self, row: Row, now: int, jobs: list[Claimed], broken: list[tuple[Lease, ErrorRecord]]) -> None:
        """Add a job to those that can be read, or to those that cannot."""
        lease = Lease(*self.lease(row))
        try:
            jobs.append(claimed(lease, now, self.fields(row), self.chain(row), *self.rest(row)))
        except msgspec.MsgspecError as error:
            broken.append((lease, corrupt(error)))


class _AlikeColumns:
    """Where the arrays of jobs that are alike are, in the rows of `take_turn`."""

    def __init__(self) -> None:
        found = entry("take_turn")
        self.runs = found.columns("runs")
        self.queue = found.columns("queue")
        self.fields = found.columns("runs", "ids", "tasks", "priorities", "run_ats", "enqueued_ats", "payloads")
        self.rare = found.columns("envelopes", "timeouts")

    def jobs(self, row: Row, now: int, jobs: list[Claimed], broken: list[tuple[Lease, ErrorRecord]]) -> None:
        """Add jobs that never ran to those that can be read, or to those that cannot. It equals `claimed` for each."""
        queue = self.queue(row)
        envelopes, timeouts = self.rare(row)
        nothing = repeat(None)
        for (run, id, task, priority, run_at, enqueued_at, payload), envelope, timeout in zip(
            zip(*self.fields(row), strict=True), envelopes or nothing, timeouts or nothing, strict=False
        ):
            lease = Lease(queue, id, run, 1)
            try:
                jobs.append(
                    Claimed(
                        lease=lease, task=task, payload=payload, priority=priority, key=None, run_at_ms=run_at,
                        enqueued_at_ms=enqueued_at, claimed_at_ms=now, counters=FRESH, timeout_ms=timeout,
                        envelope=opened(envelope) if envelope else EMPTY,
                    )
                )  # fmt: skip
            except msgspec.MsgspecError as error:
                broken.append((lease, corrupt(error)))


_columns = cache(_ClaimedColumns)
_alike = cache(_AlikeColumns)


def claimed_count(rows: Sequence[Row]) -> int:
    """Return how many jobs a turn has claimed, by its rows."""
    runs = _alike().runs
    return sum(len(runs(row) or (row,)) for row in rows) - 1


def claimed_jobs(rows: Iterable[Row], now: int) -> tuple[list[Claimed], list[tuple[Lease, ErrorRecord]]]:
    """Return the jobs of a turn, and the leases of those that cannot be read."""
    single, alike = _columns("take_turn", "timed_out"), _alike()
    jobs: list[Claimed] = []
    broken: list[tuple[Lease, ErrorRecord]] = []
    for row in rows:
        (alike.jobs if alike.runs(row) else single.job)(row, now, jobs, broken)
    return jobs, broken


def held_jobs(rows: Iterable[Row]) -> tuple[list[Claimed], list[tuple[Lease, ErrorRecord]]]:
    """Return what a session holds, and the leases of those jobs that cannot be read."""
    columns = _columns("held")
    jobs: list[Claimed] = []
    broken: list[tuple[Lease, ErrorRecord]] = []
    for row in rows:
        columns.job(row, row[-1], jobs, broken)  # when it was claimed
    return jobs, broken


class ReapedReply(msgspec.Struct, frozen=True):
    """A job of a vanished worker, as `reap` left it; its counts are those before that."""

    id: str
    run: int
    attempt: int
    task: str | None
    state: str
    failures: int
    stalls: int
    timeouts: int
    releases: int
    ran_ms: int


def reaped_jobs(queue: str, found: object) -> tuple[ReapedJob, ...]:
    """Return the jobs of vanished workers."""
    return tuple(
        reaped(
            Lease(queue, job.id, job.run, job.attempt), job.task, job.state,
            (job.failures, job.stalls, job.timeouts, job.releases), job.ran_ms,
        )
        for job in msgspec.convert(found, list[ReapedReply])
    )  # fmt: skip
