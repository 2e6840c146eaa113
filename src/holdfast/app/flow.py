"""Flows: fan-out, fan-in and any graph of jobs, started as a whole and started again where it stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Concatenate, Generic, TypeVar, overload

import msgspec

from ..client import DEFAULT_WAIT
from ..core.bound import ASKED_AT_ONCE
from ..core.chain import BlockerRef, OnBlockerFailed
from ..core.duration import Duration, to_ms, ttl_ms
from ..core.job import JobRecord
from ..core.state import State
from ..core.word import check_text
from ..errors import ConfigError, JobError, JobTimeout
from ..store.contract import OnFailed, Running
from ..telemetry import traces
from .bulk import Call, EnqueueCounts, enqueue_part
from .registry import Registry
from .task import Task

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
A = TypeVar("A")
IN_FLIGHT = 20
DAY = 24 * 3600.0


class Node(Generic[R_co]):
    """One job of a flow."""

    __slots__ = ("after", "call", "id", "level", "queue")

    def __init__(self, id: str, call: Call[R_co], after: tuple[Node[object], ...]) -> None:
        self.id = id
        self.queue = call.queue
        self.call = call
        self.after = after
        self.level: int = 1 + max((node.level for node in after), default=-1)

    def __repr__(self) -> str:
        return f"<Node {self.queue}/{self.id} after {len(self.after)}>"


class Group(Sequence[Node[R_co]]):
    """Jobs of a flow that run side by side; whatever comes after the group waits for all of them."""

    def __init__(self, nodes: Iterable[Node[R_co]]) -> None:
        self._nodes = tuple(nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Node[R_co]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Node[R_co]]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._nodes[index]


After = Node[object] | Group[object] | str | Iterable[Any]


class FlowProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of a flow are where. `missing`: not enqueued yet, or expired since."""

    total: int
    missing: int = 0
    blocked: int = 0
    scheduled: int = 0
    waiting: int = 0
    active: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def over(self) -> bool:
        """True when no job of it will run any more."""
        return self.completed + self.failed + self.cancelled == self.total

    @property
    def fraction(self) -> float:
        """The share that has completed."""
        return self.completed / self.total if self.total else 1.0


class Flow:
    """Made by `app.flow(id)`: add jobs and what each comes after, then start it.

    The id of each job is made of the flow's id and the job's name (by default its number), so that a flow that is
    built and started again, after a crash at whatever step, goes on where it stopped.
    """

    def __init__(
        self, registry: Registry, id: str, on_blocker_failed: OnBlockerFailed = "fail", result_ttl: Duration = DAY
    ) -> None:
        self.id = check_text(id, "flow", "a flow's id")
        if "/" in id:
            raise ConfigError(f"flow {id!r}: a flow's id has no /, which parts it from the names of its jobs: use -")
        if on_blocker_failed not in ("fail", "cancel", "ignore"):
            raise ConfigError(f'on_blocker_failed={on_blocker_failed!r}: "fail", "cancel" or "ignore"')
        self._registry = registry
        self._policy = on_blocker_failed
        self._ttl_ms = ttl_ms(result_ttl, "result_ttl")
        self._nodes: dict[str, Node[Any]] = {}

    def __repr__(self) -> str:
        return f"<Flow {self.id} of {len(self._nodes)} jobs>"

    def __len__(self) -> int:
        return len(self._nodes)

    # --- building

    def add(self, call: Call[R], *, after: After = (), name: str | None = None) -> Node[R]:
        """Return one job of the flow, which waits for those that it comes after."""
        name = str(len(self._nodes)) if name is None else check_text(name, "name", "a job's name")
        if name in self._nodes:
            raise ConfigError(f"flow {self.id!r}: there are two jobs named {name!r}; give each a name of its own")
        _check(call)
        node = Node(check_text(f"{self.id}/{name}", "id", "an id"), call, tuple(self._known(after)))
        self._nodes[name] = node
        return node

    def __getitem__(self, name: str) -> Node[Any]:
        """Return a job by its name."""
        try:
            return self._nodes[name]
        except KeyError:
            raise ConfigError(f"flow {self.id!r} has no job named {name!r}") from None

    def chain(self, *calls: Call[object], after: After = (), name: str | None = None) -> Node[object]:
        """Return the last of these jobs, each of which comes after the one before it."""
        if not calls:
            raise ConfigError(f"flow {self.id!r}: a chain has at least one job")
        for number, call in enumerate(calls):
            after = self.add(call, after=after, name=None if name is None else f"{name}/{number}")
        assert isinstance(after, Node)
        return after

    def group(self, calls: Iterable[Call[R]], *, after: After = (), name: str | None = None) -> Group[R]:
        """Return jobs that run side by side."""
        before = tuple(self._known(after))
        named = (None if name is None else f"{name}/{number}" for number in range(2**62))
        return Group([self.add(call, after=before, name=each) for call, each in zip(calls, named, strict=False)])

    def map(
        self,
        task: Task[Concatenate[A, ...], R],
        items: Iterable[A],
        *,
        after: After = (),
        name: str | None = None,
    ) -> Group[R]:
        """Return one job for each item, side by side."""
        return self.group((task.args(item) for item in items), after=after, name=name)

    def reduce(self, group: Group[Any], call: Call[R], *, name: str | None = None) -> Node[R]:
        """Return a job that comes after all of a group, and sees their results in order (`job.blockers()`)."""
        return self.add(call, after=group, name=name)

    def _known(self, after: After) -> Iterator[Node[object]]:
        if not isinstance(after, Node | Iterable):
            raise ConfigError(f"flow {self.id!r}: after={after!r}: give a job or a group of this flow, or a name")
        for each in (after,) if isinstance(after, Node | str) else after:
            if isinstance(each, Group):
                yield from self._known(each)
                continue
            node = self[each] if isinstance(each, str) else each
            if not isinstance(node, Node) or not self._has(node):
                raise ConfigError(f"flow {self.id!r}: after={node!r}: give a job or a group of this flow, or a name")
            yield node

    def _has(self, node: Node[object]) -> bool:
        return self._nodes.get(node.id[len(self.id) + 1 :]) is node

    # --- running

    async def start(self, *, on_failed: OnFailed = "keep", chunk: int = ASKED_AT_ONCE) -> EnqueueCounts:
        """Every job of the flow is in the store. What is there already stays, so that this may be repeated.

        With `on_failed="requeue"`, jobs that failed, and those that failed because of them, run again.
        """
        if on_failed not in ("keep", "requeue"):
            raise ConfigError(f'on_failed={on_failed!r}: "keep" or "requeue"')
        counts, sending = EnqueueCounts(), traces.sending(len(self._nodes))
        with traces.sent(sending):
            for level in self._levels():
                calls = (self._call(node, on_failed) for node in level)
                done = await enqueue_part(self._registry.client, calls, chunk, sending)
                for name in EnqueueCounts.__struct_fields__:
                    setattr(counts, name, getattr(counts, name) + getattr(done, name))
            if sending is not None:
                sending.end()
        return counts

    def _levels(self) -> list[list[Node[object]]]:
        """A job is enqueued when all that it waits for are there."""
        levels: dict[int, list[Node[object]]] = {}
        for node in self._nodes.values():
            levels.setdefault(node.level, []).append(node)
        return [levels[level] for level in sorted(levels)]

    def _call(self, node: Node[object], on_failed: OnFailed) -> Call[object]:
        job, options = node.call.job, node.call.options
        own = tuple(BlockerRef(each.queue, each.id) for each in node.after)
        policy = job.on_blocker_failed if job.on_blocker_failed != "fail" else self._policy
        job = msgspec.structs.replace(
            job, id=node.id, fresh=False, blockers=(*own, *job.blockers), on_blocker_failed=policy,
            result_ttl_ms=self._ttl_ms if job.result_ttl_ms is None else job.result_ttl_ms,
        )  # fmt: skip
        conflict = msgspec.structs.replace(options.conflict, on_failed=on_failed)
        return Call(node.queue, job, msgspec.structs.replace(options, conflict=conflict))

    # --- looking

    async def progress(self) -> FlowProgress:
        """Return how many jobs of the flow are where."""
        counts = dict.fromkeys([*State, "missing"], 0)
        for _, record in await self._look():
            counts[record.outcome if record is not None else "missing"] += 1
        return FlowProgress(total=len(self._nodes), **{str(name): count for name, count in counts.items()})

    async def _look(self) -> list[tuple[Node[object], JobRecord | None]]:
        """Return every job with its latest run."""
        found: dict[tuple[str, str], JobRecord] = {}
        by_queue: dict[str, list[str]] = {}
        for node in self._nodes.values():
            by_queue.setdefault(node.queue, []).append(node.id)
        for queue, ids in by_queue.items():
            found.update({(queue, each.id): each for each in await self._registry.client.look.look_up(ids, queue)})
        return [(node, found.get((node.queue, node.id))) for node in self._nodes.values()]

    async def result(self, node: Node[R] | str, timeout: Duration | None = DEFAULT_WAIT) -> R:
        """Return the result of one job of the flow, waiting for it."""
        if isinstance(node, str):
            node = self[node]
        client = self._registry.client
        record = await client.look.status(node.queue, node.id)
        data = await client.wait(node.queue, node.id, record.run, timeout)
        value: R = self._registry.decode_result(node.queue, node.call.job.task, data)
        return value

    async def wait(self, timeout: Duration | None = DEFAULT_WAIT) -> FlowProgress:
        """Return how every job of the flow ended, once all have. What is missing is not waited for: start it first.

        Raise `JobTimeout` when that takes too long.
        """
        deadline = None if timeout is None else time.monotonic() + to_ms(timeout, "timeout") / 1000
        waited_for = {before for node in self._nodes.values() for before in node.after}
        for node in self._nodes.values():
            if node not in waited_for:
                await self._over(node, deadline)
        progress = await self.progress()
        while not progress.over and progress.missing == 0:  # whose end nothing waited for, as when a sink failed early
            for node, record in await self._look():
                if record is not None and not record.outcome.finished:
                    await self._over(node, deadline)
            progress = await self.progress()
        return progress

    async def _over(self, node: Node[object], deadline: float | None) -> None:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            await self.result(node, left)
        except JobTimeout:
            raise
        except JobError:
            pass  # how it ended is for `progress` to tell

    async def cancel(self, running: Running = "signal") -> FlowProgress:
        """No job of the flow will start any more, and those that run are told to stop; return what was there."""
        before = await self.progress()
        for level in reversed(self._levels()):  # jobs that wait come first, so that none fails for another's sake
            for first in range(0, len(level), IN_FLIGHT):
                part = level[first : first + IN_FLIGHT]
                await asyncio.gather(*(self._registry.client.cancel(node.queue, node.id, running) for node in part))
        return before


def _check(call: Call[object]) -> None:
    if not isinstance(call, Call):
        raise ConfigError(f"a flow is made of calls, such as task.args(1), and not of {call!r}")
    if not call.job.fresh:
        raise ConfigError(f"job_id={call.job.id!r}: the ids of a flow's jobs are made by the flow; leave it out")
    if call.job.dedup is not None or call.options.connection is not None or call.options.conflict.on_conflict != "keep":
        raise ConfigError("dedup=, connection= and on_conflict= are not for the jobs of a flow; leave them out")
