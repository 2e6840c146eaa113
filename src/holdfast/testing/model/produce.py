"""What producers and operators do to a queue."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.chain import OPEN
from ...core.policy import Counters
from ...core.state import State
from ...core.transition import Reply, judge
from ...store.contract import Conflict, NewJob
from .chain import ModelChains
from .run import ModelRun, ModelSuccessor, by_time, moved, starts_at


class ModelProducing(ModelChains):
    """Enqueueing, cancelling, deleting, running anew."""

    def enqueue(self, now: int, job: NewJob, conflict: Conflict, answered: int) -> tuple[str, int, State]:
        """Return the status, run and state that an enqueue must answer. `answered` numbers a run that is new."""
        if found := self._deduplicated(now, job):
            return found
        existing = self.holder(job.id, now)
        if existing is None:
            return "queued", answered, self._begin(now, job, answered)
        if conflict.on_conflict == "update":
            if existing.position:
                return "refused", existing.run, existing.state
            if existing.outcome is State.ACTIVE:
                return "successor", self._succeed_later(now, job, conflict, answered), State.ACTIVE
            if not existing.outcome.finished:
                self.merge(now, existing, self._as_update(now, job, conflict, existing.run))
                return "updated", existing.run, existing.state
        elif not (existing.outcome is State.FAILED and conflict.on_failed == "requeue"):
            return self._as_it_is(existing)
        existing.held, existing.requeued = False, True
        status = "requeued" if existing.outcome is State.FAILED else "queued"
        return status, answered, self._begin(now, job, answered)

    def _as_it_is(self, run: ModelRun) -> tuple[str, int, State]:
        return ("completed" if run.outcome is State.COMPLETED else "duplicate"), run.run, run.outcome

    def _deduplicated(self, now: int, job: NewJob) -> tuple[str, int, State] | None:
        spec = job.dedup
        if spec is None:
            return None
        for run in sorted(self.kept(now), key=lambda run: -run.run):
            over = run.outcome.finished and (spec.scope == "incomplete" or run.outcome is State.CANCELLED)
            if run.dedup == spec.key and not over and run.id not in spec.exclude:
                return self._as_it_is(run)
        for id, successor in self.successors.items():
            if successor.dedup == spec.key and id not in spec.exclude:
                return "duplicate", successor.run, State.ACTIVE
        return None

    def _begin(self, now: int, job: NewJob, number: int) -> State:
        assert number > self.newest, "run numbers only grow"
        run = self.insert(now, job, number)
        self.give_up(now, run)
        return run.state

    def _as_update(self, now: int, job: NewJob, conflict: Conflict, number: int) -> ModelSuccessor:
        return ModelSuccessor(
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
        self.successors[job.id] = ModelSuccessor(
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

    def merge(self, now: int, run: ModelRun, new: ModelSuccessor) -> None:
        """The run has taken over what an update or a successor brings."""
        run_at = moved(run.run_at, new.mode, new.run_at)
        if run.state is not State.BLOCKED:
            run.state = by_time(now, run_at)
            if run.state is State.WAITING and run_at != run.run_at:
                run_at = max(run_at, now)
        run.run_at = run_at
        if new.payload:
            run.payload, run.priority, run.key = new.job.payload, new.job.priority, new.job.key
        if new.resets:
            run.snoozes, run.spared = 0, run.counters.attempts
            run.counters, run.company = Counters(attempts=run.counters.attempts), None
        run.dedup = new.dedup or run.dedup
        run.absorbed.add(new.run)

    def cancel(self, now: int, id: str, running: str) -> tuple[Reply, State | None, bool]:
        """Return the reply, the state that was found, and whether a successor was cancelled."""
        run = self.holder(id, now) or self.answering(id, now)
        if run is None:
            return Reply.MISSING, None, False
        successor = self._bury_successor(now, id)
        if run.chain_state == OPEN:  # the current job of its chain is meant
            run = self.runs.get(run.tail or 0, run)
        if run.state is State.ACTIVE:
            run.cancel = run.cancel or running == "signal"
            reply = Reply.OK if running == "signal" or successor else Reply.WRONG_STATE
            return reply, State.ACTIVE, successor
        found, reply = run.state, judge("cancel", run.state)
        if reply is Reply.OK:
            self.cancelled(now, run)
        return Reply.OK if successor else reply, found, successor

    def _bury_successor(self, now: int, id: str) -> bool:
        """A successor that is cancelled is a cancelled run, as if it had been the job itself."""
        successor = self.successors.pop(id, None)
        if successor is None:
            return False
        ends = now + self.settings.result_ttl_ms
        self.runs[successor.run] = self.started(
            successor, successor.run_at, state=State.CANCELLED, held=False, free_at=now, expires_at=ends, dedup=None
        )
        self.report(now, successor.run, State.CANCELLED, None)
        return True

    def promote(self, now: int, id: str) -> Reply:
        """Return the reply to a promote."""
        run = self.holder(id, now) or self.answering(id, now)
        reply = judge("promote", run.state if run else None)
        if run is not None and reply is Reply.OK:
            run.state, run.run_at = State.WAITING, now
        return reply

    def complete_chain(self, now: int, id: str, result: bytes) -> Reply:
        """Return the reply to a completion from outside."""
        run = self.answering(id, now)
        if run is None:
            return Reply.MISSING
        current = self.runs.get(run.tail, run) if run.tail is not None else run
        if run.outcome.finished or current.state.finished:
            return Reply.WRONG_STATE
        current.result = result
        current.exits.clear()  # how its last attempt ended does not count any more
        self.finish(now, current, State.COMPLETED, 0)
        return Reply.OK

    def delete(self, now: int, id: str) -> Reply:
        """Return the reply to a delete: a first job goes with its chain, a later one ends it."""
        run = self.holder(id, now) or self.answering(id, now)
        if run is None:
            return Reply.MISSING
        if not run.position:
            self.delete_chain(now, run)
            return Reply.OK
        del self.runs[run.run]
        if not run.state.finished:
            self.cancelled(now, run)
        return Reply.OK

    def delete_chain(self, now: int, first: ModelRun) -> None:
        """Delete every job of the chain; jobs that wait for it hear that it was cancelled."""
        outcome = first.outcome
        for run in [*self.others(first), first]:
            del self.runs[run.run]
        if outcome is State.ACTIVE and (successor := self.take_successor(first)):
            self.report(now, successor.run, State.CANCELLED, None)
        self.report(now, first.run, State.CANCELLED, None)

    def waiting_for(self, first: ModelRun) -> set[int]:
        """Return the runs that wait for a chain."""
        return {run.run for run in self.runs.values() if any(wait.first == first.run for wait in run.waits)}

    def cascade(self, now: int, first: ModelRun) -> int:
        """The chain, and every chain that waits for it, are gone; return how many chains."""
        todo = [first]
        for each in todo:
            for number in sorted(self.waiting_for(each)):
                run = self.runs[number]
                waiting = self.runs[run.chain] if run.position and run.chain is not None else run
                if waiting not in todo:
                    todo.append(waiting)
        for each in reversed(todo):
            self.delete_chain(now, each)
        return len(todo)

    def requeue(self, now: int, answered: Iterable[tuple[str, int]]) -> None:
        """Every dead letter whose id is free or its own runs anew; `answered` says as which run."""
        told = dict(answered)
        letters = sorted((run for run in self.kept(now) if run.state is State.FAILED), key=lambda run: run.run)
        for letter in letters:
            holder = self.holder(letter.id, now)
            if letter.requeued or holder not in (None, letter):
                continue
            letter.held, letter.requeued = False, True
            self._run_anew(now, letter, told.pop(letter.id))
        assert not told, f"requeued without cause: {told}"

    def _run_anew(self, now: int, letter: ModelRun, number: int) -> None:
        job = NewJob(id=letter.id, task="t", payload=letter.payload, priority=letter.priority, key=letter.key)
        waits = [wait if wait.state is State.COMPLETED else self.look(now, wait.id) for wait in letter.waits]
        letter.waits = []
        chain = letter.chain if letter.position else None
        run = self.insert(
            now, job, number, dedup=letter.dedup, waits=waits, policy=letter.policy, chain=chain,
            position=letter.position,
        )  # fmt: skip
        if run.position:
            self.reopen(now, run)
        self.give_up(now, run)

    def expire(self, now: int) -> int:
        """Return how many runs a sweep must remove: a first job takes the others of its chain along."""
        over = [run for run in self.runs.values() if run.expires_at is not None and run.expires_at <= now]
        gone = {each.run for run in over for each in [run, *self.others(run)]}
        for number in gone:
            del self.runs[number]
        return len(gone)
