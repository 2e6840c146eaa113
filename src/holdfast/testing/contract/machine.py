"""Random interleavings of several workers, crashes, clock steps, limit changes, conflicts and cancels.

A Hypothesis state machine does the same to a store and to the pure model, and compares them after every step.
`HOLDFAST_HYPOTHESIS=long` runs for hours instead of seconds.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ...core.job import ErrorRecord
from ...core.limit import QueueSettings, Rate, Retention
from ...core.policy import Cause, Counters, Policy, Retry
from ...core.state import State
from ...core.transition import Reply
from ...store.contract import (
    Complete,
    Conflict,
    Declaration,
    DedupSpec,
    Failed,
    Filter,
    Lease,
    NewJob,
    Released,
    Retried,
    Session,
    Settlement,
    Snoozed,
    Turn,
)
from ..clock import ManualClock
from ..model import Model
from .bench import Bench
from .case import Case
from .harness import Harness

T = TypeVar("T")
QUEUE, TASK = "q", "t"
RETRY = Retry(failures=2, stalls=2, timeouts=2, releases=3, initial=1.0, maximum=2.0)
SETTINGS: dict[str, Any] = {"result_ttl_ms": 20_000, "retention": {"failed": 120.0}}
IDS = [f"i{number}" for number in range(8)]
KEYS = ["a", "b"]
ERROR = ErrorRecord(type="Odd", message="no good")
LEASE_MS = 15_000

# Tokens that come back in 1/1024 of a second are exact in binary, so that both sides agree to the last bit.
RATES = st.sampled_from([None, Rate(1, per=1.024), Rate(4, per=4.096)])
SMALL = st.sampled_from([None, 1, 2])
DELAYS = st.sampled_from([None, None, None, 0, 1000])
ids = st.sampled_from(IDS)
keys = st.sampled_from([None, *KEYS])
priorities = st.integers(-1, 1)
workers = st.integers(0, 2)
picks = st.integers(0, 9)
ends = st.sampled_from(["complete", "failure", "timeout", "fail", "snooze", "release", "release later", "stall"])
conflicts = st.builds(
    Conflict,
    on_conflict=st.sampled_from(["keep", "update"]),
    on_failed=st.sampled_from(["keep", "requeue"]),
    update_payload=st.booleans(),
    update_run_at=st.sampled_from(["always", "never", "if_later", "if_earlier"]),
    reset_counts=st.sampled_from([None, True, False]),
)
dedups = st.none() | st.builds(
    DedupSpec,
    key=st.sampled_from(["d0", "d1"]),
    scope=st.sampled_from(["incomplete", "any"]),
    exclude=st.sampled_from([(), ("i0",)]),
)


STEPS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {}


def often(weight: int, **arguments: st.SearchStrategy[Any]) -> Callable[[T], T]:
    """The method is a step of the machine, taken so often; a single rule chooses among them by these weights."""

    def note(step: T) -> T:
        STEPS[step.__name__] = (weight, arguments)  # type: ignore[attr-defined]
        return step

    return note


@st.composite
def steps(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return the name of a step, and its arguments."""
    name = draw(st.sampled_from([name for name, (weight, _) in STEPS.items() for _ in range(weight)]))
    return name, draw(st.fixed_dictionaries(STEPS[name][1]))


class StoreMachine(RuleBasedStateMachine):
    """One store, one model, three workers that come and go."""

    harness: Harness
    """The place of which every example gets a fresh one."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        here = self.harness.fresh()
        self.store = here.make(self.clock)
        self.bench = Bench(here, self.store, self.clock)
        self.model = Model(_settings({}), RETRY)
        self.limits: dict[str, Any] = {}
        self.sessions: list[Session] = []
        self.crashed: list[Session] = []
        self.heard: dict[str, int] = {}
        self.dead: set[str] = set()
        self.held: dict[str, list[Lease]] = {}
        self.done: list[tuple[Session, Settlement]] = []
        self.position: str | None = None
        self.states: dict[int, State | None] = {}
        self.counted: dict[int, Counters] = {}
        self.claims: dict[int, int] = {}
        self.payloads = 0
        self._run(self._open())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def _open(self) -> None:
        await self.store.open()
        tasks = {TASK: Policy(retry=RETRY)}
        await self.store.declare([Declaration(queue=QUEUE, settings=SETTINGS, tasks=tasks)])
        for _ in range(3):
            self.sessions.append(await self._session())

    async def _session(self) -> Session:
        session = await self.bench.session(QUEUE, lease_ms=LEASE_MS)
        self.heard[session.id] = self.clock.now_ms
        self.held[session.id] = []
        return session

    @property
    def now(self) -> int:
        return self.clock.now_ms

    @initialize(
        limits=st.fixed_dictionaries(
            {"concurrency": SMALL, "key_concurrency": SMALL, "rate": st.none() | RATES, "key_rate": RATES}
        )
    )
    def start_with(self, limits: dict[str, Any]) -> None:
        """Half of what the machine is for are limits: most examples have some from the start."""
        self._configure(**limits)

    @rule(step=steps())
    def take(self, step: tuple[str, dict[str, Any]]) -> None:
        """One step. A single rule, since Hypothesis would leave out whole rules in many examples."""
        name, arguments = step
        getattr(self, name)(**arguments)

    # --- producing

    @often(
        5,
        batch=st.lists(st.tuples(ids, keys, priorities, DELAYS, dedups), min_size=1, max_size=6), conflict=conflicts
    )  # fmt: skip
    def enqueue(self, batch: list[tuple[Any, ...]], conflict: Conflict) -> None:
        self._enqueue([self._job(*fields) for fields in batch], conflict)

    @often(3, pick=picks, key=keys, delay=DELAYS, conflict=conflicts)
    def dispatch_again_what_runs(self, pick: int, key: str | None, delay: int | None, conflict: Conflict) -> None:
        if not (running := self.model.active()):
            return
        again = msgspec.structs.replace(conflict, on_conflict="update")
        self._enqueue([self._job(running[pick % len(running)].id, key, 0, delay, None)], again)

    def _job(self, id: str, key: str | None, priority: int, delay: int | None, dedup: DedupSpec | None) -> NewJob:
        self.payloads += 1
        return NewJob(
            id=id,
            task=TASK,
            payload=b"%d" % self.payloads,
            key=key,
            priority=priority,
            delay_ms=delay,
            dedup=dedup,
        )

    def _enqueue(self, jobs: list[NewJob], conflict: Conflict) -> None:
        answers = self._run(self.store.enqueue(QUEUE, jobs, conflict))
        for job, answer in zip(jobs, answers, strict=True):
            expected = self.model.enqueue(self.now, job, conflict, answer.run)
            self.model.note_turns(self.now)
            assert (answer.status, answer.run, answer.state) == expected, f"{answer}, and {expected} was right"

    @often(2, id=ids, pick=picks, running=st.sampled_from(["refuse", "signal"]))
    def cancel(self, id: str, pick: int, running: Any) -> None:
        busy = [*self.model.successors] or [run.id for run in self.model.active()]
        if busy and pick % 2:
            id = busy[pick % len(busy)]
        found = self._run(self.store.cancel(QUEUE, id, running))
        right = self.model.cancel(self.now, id, running)
        assert (found.reply, found.state, found.successor) == right, f"{found}, and {right} was right"

    @often(3, id=ids, what=st.sampled_from(["promote", "delete", "requeue", "expire"]))
    def steer(self, id: str, what: str) -> None:
        if what == "promote":
            assert self._run(self.store.promote(QUEUE, id)) == self.model.promote(self.now, id)
        elif what == "delete":
            assert self._run(self.store.delete(QUEUE, id)) == self.model.delete(self.now, id)
        elif what == "requeue":
            done = self._run(self.store.requeue(Filter(queue=QUEUE)))
            self.model.requeue(self.now, [(id, run) for _, id, run in done])
        else:
            assert self._run(self.store.expire(QUEUE, 1000)) == self.model.expire(self.now)

    # --- working

    @often(7, worker=workers, room=st.integers(1, 4))
    def claim(self, worker: int, room: int) -> None:
        self._turn(self.sessions[worker], [], room)

    @often(7, worker=workers, pick=picks, how=ends, room=st.integers(0, 2))
    def settle(self, worker: int, pick: int, how: str, room: int) -> None:
        if not (busy := [session for session in self.sessions if self.held[session.id]]):
            return
        session = busy[worker % len(busy)]
        lease = self.held[session.id].pop(pick % len(self.held[session.id]))
        self._turn(session, [_settlement(lease, how)], room)

    @often(2, worker=workers, hows=st.lists(ends, min_size=2, max_size=4))
    def settle_several(self, worker: int, hows: list[str]) -> None:
        if not (busy := [session for session in self.sessions if self.held[session.id]]):
            return
        session = busy[worker % len(busy)]
        entries = [_settlement(self.held[session.id].pop(), how) for how in hows if self.held[session.id]]
        self._turn(session, entries, 0)

    def _turn(self, session: Session, entries: list[Settlement], room: int) -> None:
        """One call of a worker: everything is settled, and what there is room for is claimed."""
        turn = self._run(self.store.settle_and_claim(session, entries, [QUEUE], room))
        if self._was_evicted(session, turn.evicted):
            return
        for entry, settled in zip(entries, turn.settled, strict=True):
            right = self.model.settle(self.now, session.id, entry)
            self.model.note_turns(self.now)
            assert (settled.reply, settled.state) in right, f"{settled}, and {right} was right"
            if settled.reply is Reply.OK:
                self.done = [*self.done[-9:], (session, entry)]
        if room:
            self._claimed(session, turn, room)

    def _claimed(self, session: Session, turn: Turn, room: int) -> None:
        claimed = [(job.lease.id, job.lease.run, job.lease.attempt) for job in turn.claimed]
        self.model.claim(self.now, session.id, claimed, room)
        for job in turn.claimed:
            assert job.payload == self.model.runs[job.lease.run].payload
            self.held[session.id].append(job.lease)
        if len(turn.claimed) < room:
            self._slept_long_enough(turn.next_at_ms)

    def _slept_long_enough(self, told: int | None) -> None:
        """A worker that sleeps until the instant it was told misses nothing."""
        wanted = self.model.next_at(self.now)
        assert wanted is None or (told is not None and told <= wanted), f"told {told}, and {wanted} was right"

    @often(3, pick=picks, worker=st.none() | workers, room=st.integers(0, 1), other=st.none() | ends)
    def settle_again(self, pick: int, worker: int | None, room: int, other: str | None) -> None:
        """A reply was lost, or somebody settles what is another's, or changes its mind."""
        if not self.done:
            return
        session, entry = self.done[-1 - pick % len(self.done)]
        if worker is not None:
            session = self.sessions[worker]
        self._turn(session, [_settlement(entry.lease, other) if other else entry], room)

    @often(1, pick=picks, how=ends)
    def come_back_late(self, pick: int, how: str) -> None:
        if not (late := [session for session in self.crashed if self.held[session.id]]):
            return
        session = late[pick % len(late)]
        self._turn(session, [_settlement(self.held[session.id].pop(), how)], 0)

    def _was_evicted(self, session: Session, evicted: bool) -> bool:
        assert evicted == (session.id in self.dead), "whoever was reaped hears it, and nobody else"
        if evicted:
            self.held[session.id] = []
            if session in self.sessions:
                self.sessions[self.sessions.index(session)] = self._run(self._session())
            return True
        self.heard[session.id] = self.now
        return False

    @often(2, worker=workers, what=st.sampled_from(["crash", "extend", "held"]))
    def live_or_die(self, worker: int, what: str) -> None:
        session = self.sessions[worker]
        if what == "crash":
            self.crashed.append(session)
            self.sessions[worker] = self._run(self._session())
        elif what == "extend":
            self._was_evicted(session, self._run(self.store.extend(session)).evicted)
        else:
            held = {(job.lease.run, job.lease.attempt) for job in self._run(self.store.held(session))}
            mine = {(run.run, run.counters.attempts) for run in self.model.active() if run.session == session.id}
            assert held == (set() if session.id in self.dead else mine)

    @often(2, worker=st.none() | workers)
    def reap(self, worker: int | None) -> None:
        caller = None if worker is None else self.sessions[worker].id
        reaped = self._run(self.store.reap(QUEUE, 1000, caller))
        assert reaped.shifted_ms == 0
        counts = [self.model.reap(self.now, session) for session in reaped.sessions]
        assert (reaped.returned, reaped.failed) == (sum(n for n, _ in counts), sum(n for _, n in counts))
        for id, heard in self.heard.items():
            silent = self.now - heard
            if id in reaped.sessions:
                assert id != caller
                assert silent >= LEASE_MS * 2 // 3, f"{id} was reaped after {silent} ms"
                self.dead.add(id)
            elif id not in self.dead and id != caller:
                assert silent < LEASE_MS, f"{id} was silent for {silent} ms and not reaped"

    # --- time and limits

    @often(4, ms=st.sampled_from([1, 500, 1000, 1024, 2048, 5000, 16_000, 21_000]))
    def pass_time(self, ms: int) -> None:
        self._run(self.bench.tick(ms / 1000))

    @often(
        3,
        name=st.sampled_from(["paused", "concurrency", "key_concurrency", "rate", "key_rate", "one key"]),
        limit=SMALL,
        rate=RATES,
        key=st.sampled_from(KEYS),
    )
    def change_a_limit(self, name: str, limit: int | None, rate: Rate | None, key: str) -> None:
        if name == "one key":
            self._limit_key(key, limit)
        elif name == "paused":
            self._configure(paused=limit == 1 and not self.model.settings.paused)
        elif name in ("rate", "key_rate"):
            # What a bucket holds when one rate follows another is not of the contract: none comes in between.
            self._configure(**{name: None if getattr(self.model.settings, name) else rate})
        else:
            self._configure(**{name: limit})

    def _limit_key(self, key: str, limit: int | None) -> None:
        self._run(self.store.limit_key(QUEUE, key, limit))
        if limit is None:
            self.model.key_limits.pop(key, None)
        else:
            self.model.key_limits[key] = limit

    def _configure(self, **changes: Any) -> None:
        self.limits.update(changes)
        assert self._run(self.store.configure(QUEUE, changes)) == _settings(self.limits)
        self.model.configure(_settings(self.limits))

    # --- what must hold after every step

    @invariant()
    def every_run_is_as_the_model_says(self) -> None:
        jobs = self._run(self.store.jobs(Filter(queue=QUEUE), limit=1000)).jobs
        kept = {run.run: run for run in self.model.kept(self.now)}
        assert {job.run for job in jobs} == set(kept), "nothing is lost, and nothing comes from nowhere"
        for job in jobs:
            seen = (
                job.run, job.state, job.counters, job.payload, job.priority, job.key, job.run_at_ms,
                job.holds_id, job.cancel_requested, job.successor,
            )  # fmt: skip
            run = kept[job.run]
            successor = run.state is State.ACTIVE and run.id in self.model.successors
            right = run.seen(self.now, successor)
            assert seen == right, f"{seen}, and {right} was right"
        active = [job.id for job in jobs if job.state is State.ACTIVE]
        assert len(active) == len(set(active)), "an id is active twice"

    @invariant()
    def every_id_is_answered_for_by_the_right_run(self) -> None:
        for id in IDS:
            job = self._run(self.store.get(QUEUE, id))
            run = self.model.answering(id, self.now)
            assert (job.run if job else None) == (run.run if run else None)

    @invariant()
    def a_key_is_ready_exactly_when_it_may_be(self) -> None:
        ready = self._run(self.bench.harness.ready_keys(self.store, QUEUE, self.now))
        assert ready is None or ready == self.model.ready_keys(self.now)
        self.model.note_turns(self.now)

    @invariant()
    def the_log_gives_the_state(self) -> None:
        page = self._run(self.store.events(self.position, queue=QUEUE, limit=1000))
        self.position = page.position
        for event in page.events:
            self.states[event.run] = event.state
            self.counted[event.run] = event.counters
            self.claims[event.run] = self.claims.get(event.run, 0) + (event.transition == "claim")
        there = {number: state for number, state in self.states.items() if state is not None}
        assert there == {run.run: run.state for run in self.model.runs.values()}
        for run in self.model.runs.values():
            assert self.counted[run.run] == run.counters
            assert self.claims[run.run] == run.counters.attempts, "an attempt for each claim"

    def teardown(self) -> None:
        try:
            left = self._run(self.bench.leftovers())
            assert not left, f"after every job had gone, these were left: {dict(left)}"
        finally:
            self._run(self.bench.close())
            self.runner.close()


def _settings(limits: dict[str, Any]) -> QueueSettings:
    retention = msgspec.convert(SETTINGS["retention"], Retention)
    return QueueSettings(**{**SETTINGS, "retention": retention, **limits})


def _settlement(lease: Lease, how: str) -> Settlement:
    ways: dict[str, Callable[[], Settlement]] = {
        "complete": lambda: Complete(lease, b"null"),
        "failure": lambda: Retried(lease, ERROR, Cause.FAILURE),
        "timeout": lambda: Retried(lease, ERROR, Cause.TIMEOUT),
        "fail": lambda: Failed(lease, ERROR),
        "snooze": lambda: Snoozed(lease, delay_ms=1500),
        "release": lambda: Released(lease),
        "release later": lambda: Released(lease, 1500),
        "stall": lambda: Released(lease, error=ERROR, cause=Cause.STALL),
    }
    return ways[how]()


def budget() -> settings:
    """Return how much is tried: a fixed, modest amount, or with `HOLDFAST_HYPOTHESIS=long` far more, at random."""
    long = os.environ.get("HOLDFAST_HYPOTHESIS") == "long"
    return settings(
        max_examples=2000 if long else 40,
        stateful_step_count=100 if long else 40,
        derandomize=not long,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


class Machine(Case):
    """The store and the pure model, side by side."""

    @pytest.mark.timeout(0 if os.environ.get("HOLDFAST_HYPOTHESIS") == "long" else 300)
    def test_random_interleavings_agree_with_the_model(self, harness: Harness) -> None:
        machine = type("StoreMachine", (StoreMachine,), {"harness": harness})
        run_state_machine_as_test(machine, settings=budget())
