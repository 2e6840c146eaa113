"""What a store must do, in plain Python: one queue, no I/O, no clock. The contract's machine runs both side by side.

The model never chooses where the contract leaves a choice (which key goes first, whether a session that was
silent for most of its lease has been renewed): it is told what the store did, and says whether that was right.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.limit import Bucket, QueueSettings, next_token_ms, refill
from ..core.policy import COUNTER, Cause, Counters, Retry, verdict
from ..core.state import State
from ..core.transition import Reply, judge
from ..store.contract import Complete, Conflict, Failed, NewJob, Released, Retried, Settlement, Snoozed, UpdateRunAt

NAMES: dict[type, str] = {
    Complete: "complete",
    Retried: "retry",
    Failed: "fail",
    Snoozed: "snooze",
    Released: "release",
}


@dataclass
class Run:
    """One run as it must stand."""

    run: int
    id: str
    payload: bytes
    priority: int
    key: str | None
    run_at: int
    enqueued_at: int
    dedup: str | None
    state: State
    counters: Counters = field(default_factory=Counters)
    session: str | None = None
    cancel: bool = False
    held: bool = True
    requeued: bool = False
    free_at: int | None = None
    expires_at: int | None = None
    absorbed: set[int] = field(default_factory=set)
    exits: dict[int, tuple[str, str]] = field(default_factory=dict)
    """How each attempt ended: by which session, by which settlement."""

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among the jobs of its key."""
        return (-self.priority, self.run_at, self.run)

    def seen(self, now: int, successor: bool) -> tuple[Any, ...]:
        """Return what a look at it must show."""
        holds = self.held and not (self.free_at is not None and self.free_at <= now)
        return (
            self.run, self.state, self.counters, self.payload, self.priority, self.key, self.run_at,
            holds, self.cancel, successor,
        )  # fmt: skip


@dataclass
class Successor:
    """Another dispatch of an id whose run is active."""

    run: int
    job: NewJob
    run_at: int
    enqueued_at: int
    dedup: str | None
    payload: bool
    mode: UpdateRunAt
    resets: bool


class Model:
    """The state of one queue. Every method is told the time."""

    def __init__(self, settings: QueueSettings, retry: Retry) -> None:
        self.settings = settings
        self.retry = retry
        self.runs: dict[int, Run] = {}
        self.successors: dict[str, Successor] = {}
        self.key_limits: dict[str, int] = {}
        self.key_buckets: dict[str, Bucket] = {}
        self.bucket: Bucket | None = None
        self.newest = 0
        self.turn = 0
        self.served: dict[str | None, int] = {}
        self.ready_since: dict[str | None, int] = {}

    # --- looking

    def holder(self, id: str, now: int) -> Run | None:
        """Return the run that holds an id, and let go of one whose time is over."""
        for run in self.runs.values():
            if run.id == id and run.held:
                if run.free_at is not None and run.free_at <= now:
                    run.held = False
                    return None
                return run
        return None

    def kept(self, now: int) -> list[Run]:
        """Return every run that can be seen."""
        return [run for run in self.runs.values() if run.expires_at is None or run.expires_at > now]

    def answering(self, id: str, now: int) -> Run | None:
        """Return the run that answers for an id, or else its latest that is kept."""
        found = [run for run in self.kept(now) if run.id == id]
        return max(found, key=lambda run: (run.held, run.run), default=None)

    def active(self, key: str | None = None) -> list[Run]:
        """Return what runs, of a key or of all."""
        return [run for run in self.runs.values() if run.state is State.ACTIVE and key in (None, run.key)]

    def waiting(self, key: str | None) -> list[Run]:
        """Return what waits under a key, in order."""
        found = [run for run in self.runs.values() if run.state is State.WAITING and run.key == key]
        return sorted(found, key=lambda run: run.place)

    def keys(self) -> set[str]:
        """Return every key of an unfinished job."""
        return {run.key for run in self.runs.values() if run.key is not None and not run.state.finished}

    def has_room(self, key: str | None) -> bool:
        """True when the limits on running jobs let one more of this key start."""
        if key is None:
            return True
        limit = self.key_limits.get(key, self.settings.key_concurrency)
        return limit is None or len(self.active(key)) < limit

    def key_token_at(self, key: str | None, now: int) -> int:
        """Return when a key has a token."""
        rate = self.settings.key_rate
        if key is None or rate is None:
            return now
        return next_token_ms(rate, refill(rate, self.key_buckets.get(key), now))

    def ready_keys(self, now: int) -> frozenset[str]:
        """Return the keys that have a waiting job, free capacity and a token."""
        return frozenset(
            key
            for key in self.keys()
            if self.waiting(key) and self.has_room(key) and self.key_token_at(key, now) <= now
        )

    def claimable(self, now: int) -> bool:
        """True when a claim must give something now."""
        return self._queue_room() > 0 and self._queue_token_at(now) <= now and bool(self.ready_groups(now))

    def next_at(self, now: int) -> int | None:
        """Return when something next becomes claimable, if nothing else happens."""
        if self.settings.paused or self._queue_room() <= 0:
            return None
        times = [
            max(run.run_at, self.key_token_at(run.key, now), self._queue_token_at(now), now)
            for run in self.runs.values()
            if run.state in (State.WAITING, State.SCHEDULED) and self.has_room(run.key)
        ]
        return min(times, default=None)

    def ready_groups(self, now: int) -> set[str | None]:
        """Return the keys that are ready, and `None` when a job without a key waits."""
        return {*self.ready_keys(now), *([None] if self.waiting(None) else [])}

    def note_turns(self, now: int) -> None:
        """Remember since which turn each group has been ready without a break. Call it after every step."""
        ready = self.ready_groups(now)
        self.ready_since = {group: self.ready_since.get(group, self.turn) for group in ready}

    def _queue_room(self) -> float:
        limit = self.settings.concurrency
        return float("inf") if limit is None else limit - len(self.active())

    def _queue_token_at(self, now: int) -> int:
        rate = self.settings.rate
        return now if rate is None else next_token_ms(rate, refill(rate, self.bucket, now))

    # --- producing

    def enqueue(self, now: int, job: NewJob, conflict: Conflict, answered: int) -> tuple[str, int, State]:
        """Return the status, run and state that an enqueue must answer. `answered` numbers a run that is new."""
        if found := self._deduplicated(now, job):
            return found
        existing = self.holder(job.id, now)
        if existing is None:
            return "queued", answered, self._insert(now, job, answered).state
        if conflict.on_conflict == "update":
            if existing.state is State.ACTIVE:
                return "successor", self._succeed_later(now, job, conflict, answered), State.ACTIVE
            if not existing.state.finished:
                self._merge(now, existing, self._as_update(now, job, conflict, existing.run))
                return "updated", existing.run, existing.state
        elif not (existing.state is State.FAILED and conflict.on_failed == "requeue"):
            return self._as_it_is(existing)
        existing.held, existing.requeued = False, True
        status = "requeued" if existing.state is State.FAILED else "queued"
        return status, answered, self._insert(now, job, answered).state

    def _as_it_is(self, run: Run) -> tuple[str, int, State]:
        return ("completed" if run.state is State.COMPLETED else "duplicate"), run.run, run.state

    def _deduplicated(self, now: int, job: NewJob) -> tuple[str, int, State] | None:
        spec = job.dedup
        if spec is None:
            return None
        for run in sorted(self.kept(now), key=lambda run: -run.run):
            over = run.state.finished and (spec.scope == "incomplete" or run.state is State.CANCELLED)
            if run.dedup == spec.key and not over and run.id not in spec.exclude:
                return self._as_it_is(run)
        for id, successor in self.successors.items():
            if successor.dedup == spec.key and id not in spec.exclude:
                return "duplicate", successor.run, State.ACTIVE
        return None

    def _insert(self, now: int, job: NewJob, number: int, **fields: Any) -> Run:
        run_at = starts_at(now, job)
        run = Run(
            run=number, id=job.id, payload=job.payload, priority=job.priority, key=job.key, run_at=run_at,
            enqueued_at=now, dedup=job.dedup.key if job.dedup else None, state=by_time(now, run_at),
        )  # fmt: skip
        assert number > self.newest, "run numbers only grow"
        self.newest = number
        self.runs[number] = replace(run, **fields)
        return self.runs[number]

    def _as_update(self, now: int, job: NewJob, conflict: Conflict, number: int) -> Successor:
        return Successor(
            run=number, job=job, run_at=starts_at(now, job), enqueued_at=now,
            dedup=job.dedup.key if job.dedup else None, payload=conflict.update_payload,
            mode=conflict.update_run_at, resets=conflict.resets,
        )  # fmt: skip

    def _succeed_later(self, now: int, job: NewJob, conflict: Conflict, answered: int) -> int:
        first = self.successors.get(job.id)
        if first is None:
            assert answered > self.newest, "run numbers only grow"
            self.newest = answered
            self.successors[job.id] = self._as_update(now, job, conflict, answered)
            return answered
        second = self._as_update(now, job, conflict, first.run)
        self.successors[job.id] = Successor(
            run=first.run,
            job=second.job if second.payload else first.job,
            run_at=moved(first.run_at, second.mode, second.run_at),
            enqueued_at=first.enqueued_at,
            dedup=second.dedup or first.dedup,
            payload=first.payload or second.payload,
            mode=first.mode if second.mode == "never" or first.mode == "always" else second.mode,
            resets=first.resets or second.resets,
        )
        return first.run

    def _merge(self, now: int, run: Run, new: Successor) -> None:
        run_at = moved(run.run_at, new.mode, new.run_at)
        run.state = by_time(now, run_at)
        if run.state is State.WAITING and run_at != run.run_at:
            run_at = max(run_at, now)
        run.run_at = run_at
        if new.payload:
            run.payload, run.priority, run.key = new.job.payload, new.job.priority, new.job.key
        if new.resets:
            run.counters = Counters(attempts=run.counters.attempts)
        run.dedup = new.dedup or run.dedup
        run.absorbed.add(new.run)

    def cancel(self, now: int, id: str, running: str) -> tuple[Reply, State | None, bool]:
        """Return the reply, the state that was found, and whether a successor was cancelled."""
        run = self.holder(id, now) or self.answering(id, now)
        if run is None:
            return Reply.MISSING, None, False
        successor = run.state is State.ACTIVE and self._bury_successor(now, id)
        if run.state is State.ACTIVE:
            run.cancel = run.cancel or running == "signal"
            reply = Reply.OK if running == "signal" else Reply.WRONG_STATE
            return reply, State.ACTIVE, successor
        found, reply = run.state, judge("cancel", run.state)
        if reply is Reply.OK:
            self._cancelled(now, run)
        return reply, found, successor

    def _bury_successor(self, now: int, id: str) -> bool:
        """A successor that is cancelled is a cancelled run, as if it had been the job itself."""
        successor = self.successors.pop(id, None)
        if successor is None:
            return False
        ends = now + self.settings.result_ttl_ms
        self.runs[successor.run] = self._started(
            successor, successor.run_at, state=State.CANCELLED, held=False, free_at=now, expires_at=ends, dedup=None
        )
        return True

    def _started(self, successor: Successor, run_at: int, **fields: Any) -> Run:
        job = successor.job
        values = {
            "run": successor.run, "id": job.id, "payload": job.payload, "priority": job.priority, "key": job.key,
            "run_at": run_at, "enqueued_at": successor.enqueued_at, "dedup": successor.dedup,
        }  # fmt: skip
        return Run(**{**values, **fields})

    def promote(self, now: int, id: str) -> Reply:
        """Return the reply to a promote."""
        run = self.holder(id, now) or self.answering(id, now)
        reply = judge("promote", run.state if run else None)
        if run is not None and reply is Reply.OK:
            run.state, run.run_at = State.WAITING, now
        return reply

    def delete(self, now: int, id: str) -> Reply:
        """Return the reply to a delete."""
        run = self.holder(id, now) or self.answering(id, now)
        if run is None:
            return Reply.MISSING
        del self.runs[run.run]
        if run.state is State.ACTIVE:
            self.successors.pop(id, None)
        return Reply.OK

    def requeue(self, now: int, answered: Iterable[tuple[str, int]]) -> None:
        """Every dead letter whose id is free or its own runs anew; `answered` says as which run."""
        told = dict(answered)
        letters = sorted((run for run in self.kept(now) if run.state is State.FAILED), key=lambda run: run.run)
        for letter in letters:
            holder = self.holder(letter.id, now)
            if letter.requeued or holder not in (None, letter):
                continue
            letter.held, letter.requeued = False, True
            job = NewJob(
                id=letter.id, task="t", payload=letter.payload, priority=letter.priority, key=letter.key
            )  # fmt: skip
            self._insert(now, job, told.pop(letter.id), dedup=letter.dedup)
        assert not told, f"requeued without cause: {told}"

    def expire(self, now: int) -> int:
        """Return how many runs a sweep must remove."""
        gone = [run.run for run in self.runs.values() if run.expires_at is not None and run.expires_at <= now]
        for number in gone:
            del self.runs[number]
        return len(gone)

    # --- working

    def promote_due(self, now: int) -> None:
        """What a claim does first."""
        for run in self.runs.values():
            if run.state is State.SCHEDULED and run.run_at <= now:
                run.state = State.WAITING

    def claim(self, now: int, session: str, claimed: Iterable[tuple[str, int, int]], room: int) -> None:
        """The session was given these (id, run, attempt), and nothing less would have been right."""
        if self.settings.paused:
            assert not list(claimed), "a paused queue gave something"
            return
        self.promote_due(now)
        self.note_turns(now)
        if self.settings.rate is not None:
            self.bucket = refill(self.settings.rate, self.bucket, now)
        count = 0
        for id, number, attempt in claimed:
            self._claim_one(now, session, id, number, attempt)
            count += 1
        assert count <= room, "more than there was room for"
        assert count == room or not self.claimable(now), "something could have been claimed, and was not"

    def _claim_one(self, now: int, session: str, id: str, number: int, attempt: int) -> None:
        run = self.runs[number]
        assert (run.id, run.state) == (id, State.WAITING), f"{id} was {run.state}"
        assert run is self.waiting(run.key)[0], f"{id} jumped the queue of its key"
        assert self._queue_room() > 0, "over the queue's concurrency"
        assert self._queue_token_at(now) <= now, "over the queue's rate"
        assert self.has_room(run.key), f"{run.key} is over its concurrency"
        assert self.key_token_at(run.key, now) <= now, f"{run.key} is over its rate"
        before = self.served.get(run.key, -1)
        passed_over = [group for group in self.ready_groups(now) if self.ready_since[group] < before]
        assert passed_over in ([], [run.key]), f"{run.key} has its second turn while {passed_over} had none"
        if self.bucket is not None and self.settings.rate is not None:
            self.bucket = Bucket(self.bucket.tokens - 1, now)
        if run.key is not None and self.settings.key_rate is not None:
            bucket = refill(self.settings.key_rate, self.key_buckets.get(run.key), now)
            self.key_buckets[run.key] = Bucket(bucket.tokens - 1, now)
        run.state, run.session = State.ACTIVE, session
        run.counters = _counted(run.counters, "attempts")
        assert run.counters.attempts == attempt
        self.turn += 1
        self.served[run.key] = self.ready_since[run.key] = self.turn

    def settle(self, now: int, session: str, entry: Settlement) -> set[tuple[Reply, State | None]]:
        """Return the words that are right for a settlement of a session that is alive."""
        name, lease = NAMES[type(entry)], entry.lease
        run = self.runs.get(lease.run)
        if run is None:
            return {(Reply.MISSING, None)}
        ours = run.session == session and run.counters.attempts == lease.attempt
        if ours and run.state is State.ACTIVE:
            run.exits[lease.attempt] = (session, name)
            return {(Reply.OK, self._apply(now, run, entry))}
        if run.exits.get(lease.attempt) == (session, name):
            right: set[tuple[Reply, State | None]] = {(Reply.OK, run.state)}
            # Only the last two attempts need be remembered.
            return right if lease.attempt >= run.counters.attempts - 1 else right | {(Reply.STALE, None)}
        return {(judge(name, run.state), None)}

    def _apply(self, now: int, run: Run, entry: Settlement) -> State:
        if isinstance(entry, Complete):
            self._finish(now, run, State.COMPLETED, self.settings.result_ttl_ms, 0)
            return State.COMPLETED
        if run.cancel:
            self._cancelled(now, run)
            return State.CANCELLED
        if isinstance(entry, Retried):
            return self._come_back(now, run, entry.cause, wait=True)
        if isinstance(entry, Failed):
            return self._fail(now, run, COUNTER.get(entry.cause, "failures"))
        if isinstance(entry, Released):
            return self._come_back(now, run, entry.cause, delay=entry.delay_ms)
        run_at = now + (entry.delay_ms or 0) if entry.run_at_ms is None else max(now, entry.run_at_ms)
        return self._put_back(now, run, run_at, State.SCHEDULED)

    def _come_back(self, now: int, run: Run, cause: Cause, *, wait: bool = False, delay: int = 0) -> State:
        counter = COUNTER[cause]
        nth = getattr(run.counters, counter) + 1
        if verdict(self.retry, cause, nth) == "fail":
            return self._fail(now, run, counter)
        run.counters = _counted(run.counters, counter)
        if wait:
            return self._put_back(now, run, now + self.retry.backoff_ms(nth), State.SCHEDULED)
        run_at = now + delay if delay else run.run_at
        return self._put_back(now, run, run_at, by_time(now, run_at))

    def _put_back(self, now: int, run: Run, run_at: int, state: State) -> State:
        run.state, run.run_at = state, run_at
        if successor := self.successors.pop(run.id, None):
            self._merge(now, run, successor)
        return run.state

    def _fail(self, now: int, run: Run, counter: str) -> State:
        run.counters = _counted(run.counters, counter)
        self._finish(now, run, State.FAILED, self.settings.result_ttl_ms, self.settings.retention.failed_ms)
        return State.FAILED

    def _cancelled(self, now: int, run: Run) -> None:
        run.held = False
        self._finish(now, run, State.CANCELLED, self.settings.result_ttl_ms, 0)
        run.free_at = now

    def _finish(self, now: int, run: Run, state: State, ttl: int, kept: int) -> None:
        run.state, run.free_at, run.expires_at = state, now + ttl, now + max(ttl, kept)
        if successor := self.successors.pop(run.id, None):
            run.held = False
            run_at = max(successor.run_at, now)
            self.runs[successor.run] = self._started(successor, run_at, state=by_time(now, run_at))

    def reap(self, now: int, session: str) -> tuple[int, int]:
        """The session is dead: return how many of its jobs came back, and how many failed."""
        states = []
        for run in [run for run in self.active() if run.session == session]:
            if run.cancel:
                self._cancelled(now, run)
                states.append(State.CANCELLED)
            else:
                states.append(self._come_back(now, run, Cause.STALL))
        return sum(state in (State.WAITING, State.SCHEDULED) for state in states), states.count(State.FAILED)

    # --- steering

    def configure(self, settings: QueueSettings) -> None:
        """Limits are changed; the buckets of a rate that is no more are gone."""
        self.settings = settings
        if settings.key_rate is None:
            self.key_buckets.clear()


def starts_at(now: int, job: NewJob) -> int:
    """Return when a job may run, a past time raised to now."""
    return max(now, job.run_at_ms) if job.run_at_ms is not None else now + max(job.delay_ms or 0, 0)


def by_time(now: int, run_at: int) -> State:
    """Return whether a job with this time waits for it, or for a worker."""
    return State.SCHEDULED if run_at > now else State.WAITING


def moved(current: int, mode: UpdateRunAt, wanted: int) -> int:
    """Return a run_at after an update by this mode."""
    if mode == "always":
        return wanted
    if mode == "never":
        return current
    return max(current, wanted) if mode == "if_later" else min(current, wanted)


def _counted(counters: Counters, name: str) -> Counters:
    values = {field: getattr(counters, field) for field in Counters.__struct_fields__}
    return Counters(**{**values, name: values[name] + 1})
