"""What workers do to a queue: claiming, settling, vanishing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ...core.limit import Bucket, refill
from ...core.policy import COUNTER, Cause, verdict
from ...core.state import State
from ...core.suspect import company_after
from ...core.transition import Reply, judge
from ...store.contract import Complete, Failed, Released, Retried, Settlement, Snoozed
from .produce import ModelProducing
from .run import ModelRun, by_time, counted

NAMES: dict[type, str] = {
    Complete: "complete",
    Retried: "retry",
    Failed: "fail",
    Snoozed: "snooze",
    Released: "release",
}


def _own_time(now: int, entry: Snoozed | Retried) -> int:
    return now + (entry.delay_ms or 0) if entry.run_at_ms is None else max(now, entry.run_at_ms)


class Model(ModelProducing):
    """One queue as it must stand. Every method is told the time."""

    def promote_due(self, now: int) -> None:
        """What a claim does first."""
        for run in self.runs.values():
            if run.state is State.SCHEDULED and run.run_at <= now:
                run.state = State.WAITING

    def claim(
        self,
        now: int,
        session: str,
        claimed: Iterable[tuple[str, int, int]],
        room: int,
        *,
        held: int = 0,
        only_suspects: bool = False,
    ) -> bool:
        """The session, which held so many, was given these (id, run, attempt), and nothing less would have been right.

        Return whether it must be told of a suspect that it held too many for.
        """
        given = list(claimed)
        if self.settings.paused:
            assert not given, "a paused queue gave something"
            return False
        self.promote_due(now)
        self.note_turns(now)
        if self.settings.rate is not None:
            self.bucket = refill(self.settings.rate, self.bucket, now)
        room, left = self._claim_suspects(now, session, given, room, held)
        count = sum(self.runs[number].company is not None for _, number, _ in given)
        assert not only_suspects or count == len(given), "what is no suspect was not asked for"
        for id, number, attempt in given[count:]:
            assert self.runs[number] is self.waiting(self.runs[number].key)[0], f"{id} jumped the queue of its key"
            self._claim_one(now, session, id, number, attempt)
        assert len(given) <= room, "more than there was room for, or than a suspect's company"
        done = only_suspects or len(given) == room or not self.claimable(now)
        assert done, "something could have been claimed, and was not"
        return left

    def _claim_suspects(
        self, now: int, session: str, given: Sequence[tuple[str, int, int]], room: int, held: int
    ) -> tuple[int, bool]:
        """Suspects come first; return the room that they leave in all, and whether one had to be left."""
        count = 0
        for run in self.suspects():
            if count >= room or self._queue_room() <= 0 or self._queue_token_at(now) > now:
                break
            if not self.has_room(run.key) or self.key_token_at(run.key, now) > now:
                continue
            assert run.company is not None
            if held + count + 1 > run.company:
                return room, True
            assert [number for _, number, _ in given[count : count + 1]] == [run.run], f"{run.id} was passed over"
            self._claim_one(now, session, *given[count])
            room, count = min(room, run.company - held), count + 1
        return room, False

    def _claim_one(self, now: int, session: str, id: str, number: int, attempt: int) -> None:
        run = self.runs[number]
        assert (run.id, run.state) == (id, State.WAITING), f"{id} was {run.state}"
        assert self._queue_room() > 0, "over the queue's concurrency"
        assert self._queue_token_at(now) <= now, "over the queue's rate"
        assert self.has_room(run.key), f"{run.key} is over its concurrency"
        assert self.key_token_at(run.key, now) <= now, f"{run.key} is over its rate"
        if run.company is None:
            self._took_turns(now, run.key)
        if self.bucket is not None and self.settings.rate is not None:
            self.bucket = Bucket(self.bucket.tokens - 1, now)
        if run.key is not None and self.settings.key_rate is not None:
            bucket = refill(self.settings.key_rate, self.key_buckets.get(run.key), now)
            self.key_buckets[run.key] = Bucket(bucket.tokens - 1, now)
        run.state, run.session = State.ACTIVE, session
        run.counters = counted(run.counters, "attempts")
        assert run.counters.attempts == attempt
        self.turn += 1
        if run.company is None or run.key is not None:  # a suspect is no turn of those without a key
            self.served[run.key] = self.ready_since[run.key] = self.turn

    def _took_turns(self, now: int, key: str | None) -> None:
        before = self.served.get(key, -1)
        passed_over = [group for group in self.ready_groups(now) if self.ready_since[group] < before]
        assert passed_over in ([], [key]), f"{key} has its second turn while {passed_over} had none"

    def settle(
        self, now: int, session: str, entry: Settlement, number: Callable[[str], int]
    ) -> set[tuple[Reply, State | None]]:
        """Return the words that are right for a settlement of a session that is alive.

        `number` tells which run an id is, of a job that this settlement goes on with.
        """
        name, lease = NAMES[type(entry)], entry.lease
        run = self.runs.get(lease.run)
        if run is None:
            return {(Reply.MISSING, None)}
        ours = run.session == session and run.counters.attempts == lease.attempt
        if ours and run.state is State.ACTIVE:
            run.exits[lease.attempt] = (session, name)
            return {(Reply.OK, self._apply(now, run, entry, number))}
        if run.exits.get(lease.attempt) == (session, name):
            right: set[tuple[Reply, State | None]] = {(Reply.OK, run.state)}
            # Only the last two attempts need be remembered.
            return right if lease.attempt >= run.counters.attempts - 1 else right | {(Reply.STALE, None)}
        return {(judge(name, run.state), None)}

    def _apply(self, now: int, run: ModelRun, entry: Settlement, number: Callable[[str], int]) -> State:
        if run.cancel and not (isinstance(entry, Complete) and entry.then is None):  # to go on is no end
            self.cancelled(now, run)
            return State.CANCELLED
        if isinstance(entry, Complete):
            if entry.then is not None:
                self.go_on(now, run, entry.then.job, number(entry.then.job.id))
            else:
                run.result = entry.result
                self.finish(now, run, State.COMPLETED, 0)
            return State.COMPLETED
        if isinstance(entry, Retried):
            own = entry.delay_ms is not None or entry.run_at_ms is not None
            return self._come_back(now, run, entry.cause, wait=True, own=_own_time(now, entry) if own else None)
        if isinstance(entry, Failed):
            return self._fail(now, run, COUNTER.get(entry.cause, "failures"))
        if isinstance(entry, Released):
            shared = entry.company if entry.company > 1 else None  # a process that ran nothing else harmed nobody else
            return self._come_back(now, run, entry.cause, delay=entry.delay_ms, company=shared)
        return self._snooze(now, run, entry)

    def _snooze(self, now: int, run: ModelRun, entry: Snoozed) -> State:
        run.snoozes += 1
        if verdict(self.retry, Cause.SNOOZE, run.snoozes) == "fail" or self._is_capped(run):
            return self._fail(now, run, None)
        run.company = None
        return self._put_back(now, run, _own_time(now, entry), State.SCHEDULED)

    def _is_capped(self, run: ModelRun) -> bool:
        return verdict(self.retry, Cause.ATTEMPTS, run.counters.attempts - run.spared) == "fail"

    def _come_back(
        self, now: int, run: ModelRun, cause: Cause, *, wait: bool = False, delay: int = 0, company: int | None = None,
        own: int | None = None,
    ) -> State:  # fmt: skip
        nth = 0
        if counter := COUNTER.get(cause):
            nth = getattr(run.counters, counter) + 1
            final = verdict(self.retry, cause, nth) == "fail"
            if cause is Cause.STALL and company is not None:
                run.company = company_after(nth, self.retry.stalls, min(company, run.company or company))
                final = run.company is None
            if final or self._is_capped(run):
                return self._fail(now, run, counter)
            run.counters = counted(run.counters, counter)
        else:
            run.spared += 1
        if wait:
            run.company = None
            run_at = now + self.retry.backoff_ms(nth) if own is None else own
            return self._put_back(now, run, run_at, State.SCHEDULED)
        run_at = now + delay if delay else run.run_at
        return self._put_back(now, run, run_at, by_time(now, run_at))

    def _put_back(self, now: int, run: ModelRun, run_at: int, state: State) -> State:
        run.state, run.run_at = state, run_at
        if successor := self.successors.pop(run.id, None):
            self.merge(now, run, successor)
        return run.state

    def _fail(self, now: int, run: ModelRun, counter: str | None) -> State:
        run.counters = counted(run.counters, counter) if counter else run.counters
        self.finish(now, run, State.FAILED, self.settings.retention.kept_ms(State.FAILED))
        return State.FAILED

    def reap(self, now: int, session: str, slots: int) -> tuple[int, int]:
        """The session is dead, which had so many slots: return how many of its jobs came back, and how many failed."""
        states = []
        for run in [run for run in self.active() if run.session == session]:
            if run.cancel:
                self.cancelled(now, run)
                states.append(State.CANCELLED)
            else:
                states.append(self._come_back(now, run, Cause.STALL, company=slots))
        return sum(state in (State.WAITING, State.SCHEDULED) for state in states), states.count(State.FAILED)
