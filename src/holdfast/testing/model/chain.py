"""How runs end, what hangs at the end of a chain, and who waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.chain import OPEN, BlockerRef
from ...core.state import State
from ...store.contract import NewJob
from .queue import ModelQueue
from .run import ModelRun, ModelSuccessor, ModelWait, by_time, starts_at


class ModelChains(ModelQueue):
    """A run begins, with what it waits for; it ends, and so does its chain, and what follows from that."""

    # --- beginning

    def insert(self, now: int, job: NewJob, number: int, **fields: Any) -> ModelRun:
        """A new run is there; one that waits for what has failed already is over at once."""
        run_at = starts_at(now, job)
        run = ModelRun(
            run=number, id=job.id, payload=job.payload, priority=job.priority, key=job.key, run_at=run_at,
            enqueued_at=now, dedup=job.dedup.key if job.dedup else None, state=by_time(now, run_at),
            waits=self._waits(now, job.blockers), policy=job.on_blocker_failed,
        )  # fmt: skip
        assert number not in self.runs, "run numbers are never used twice"
        self.newest = max(self.newest, number)
        run = self.runs[number] = replace(run, **fields)
        if run.open or self._gives_up(run):
            run.state = State.BLOCKED
        return run

    def _waits(self, now: int, refs: Sequence[BlockerRef]) -> list[ModelWait]:
        return [self.look(now, ref.id) for ref in refs]

    def look(self, now: int, id: str) -> ModelWait:
        """Return how the chain of an id stands, for one that is to wait for it. What is not there has failed."""
        run = self.answering(id, now)
        if run is None:
            return ModelWait(id, None, State.FAILED)
        if run.outcome.finished:
            return ModelWait(id, None, run.outcome, run.result)
        return ModelWait(id, run.run)

    def _gives_up(self, run: ModelRun) -> bool:
        bad = any(wait.state in (State.FAILED, State.CANCELLED) for wait in run.waits)
        return bad and run.policy != "ignore"

    def give_up(self, now: int, run: ModelRun) -> None:
        """A blocked run whose blocker did not complete follows its policy."""
        if run.state is not State.BLOCKED or not self._gives_up(run):
            return
        if run.policy == "cancel":
            self.cancelled(now, run)
        else:
            self.finish(now, run, State.FAILED, self.settings.retention.kept_ms(State.FAILED))

    # --- ending

    def cancelled(self, now: int, run: ModelRun) -> None:
        """The run is over and its id free."""
        run.held = False
        self.finish(now, run, State.CANCELLED, 0)

    def finish(self, now: int, run: ModelRun, state: State, kept: int) -> None:
        """The run is over, and so is its chain."""
        ttl = self.settings.result_ttl_ms
        run.state = state
        run.free_at = now if state is State.CANCELLED else now + ttl
        run.expires_at = None if run.position else now + max(ttl, kept)
        self._abandon(run)
        first = self.first_of(run)
        if first is None or (first is not run and (first.chain_state != OPEN or first.tail != run.run)):
            return
        if first is not run:
            self._end_chain(now, first, run, kept)
        self._chain_over(now, first)

    def first_of(self, run: ModelRun) -> ModelRun | None:
        """Return the first job of a run's chain, if it is there."""
        return self.runs.get(run.chain) if run.position and run.chain is not None else run

    def _end_chain(self, now: int, first: ModelRun, last: ModelRun, kept: int) -> None:
        ttl = self.settings.result_ttl_ms
        first.chain_state, first.result = last.state, last.result
        first.free_at, first.expires_at = now + ttl, now + max(ttl, kept)
        if last.state is State.CANCELLED:
            first.held, first.free_at = False, now

    def take_successor(self, first: ModelRun) -> ModelSuccessor | None:
        """Take the successor from a chain's first job, and return it. Another run that holds the id keeps its own."""
        if any(run.held and run.id == first.id for run in self.runs.values() if run is not first):
            return None
        return self.successors.pop(first.id, None)

    def _chain_over(self, now: int, first: ModelRun) -> None:
        if successor := self.take_successor(first):
            first.held = False
            run_at = max(successor.run_at, now)
            self.runs[successor.run] = self.started(successor, run_at, state=by_time(now, run_at))
        self.report(now, first.run, first.outcome, first.result)

    def started(self, successor: ModelSuccessor, run_at: int, **fields: Any) -> ModelRun:
        """Return a successor as a run of its own."""
        job = successor.job
        values = {
            "run": successor.run, "id": job.id, "payload": job.payload, "priority": job.priority, "key": job.key,
            "run_at": run_at, "enqueued_at": successor.enqueued_at, "dedup": successor.dedup,
        }  # fmt: skip
        return ModelRun(**{**values, **fields})

    def _abandon(self, run: ModelRun) -> None:
        for wait in run.waits:
            wait.first = None

    def report(self, now: int, number: int, state: State, result: bytes | None) -> None:
        """Tell the jobs that wait for this chain how it ended."""
        told = []
        for run in list(self.runs.values()):
            for wait in run.waits:
                if wait.first == number:
                    wait.first, wait.state, wait.result = None, state, result
                    told.append(run)
        for run in told:
            if run.state is not State.BLOCKED:
                continue
            if self._gives_up(run):
                self.give_up(now, run)
            elif not run.open:
                run.run_at = max(run.run_at, now)
                run.state = by_time(now, run.run_at)

    # --- going on

    def go_on(self, now: int, run: ModelRun, job: NewJob, number: int) -> None:
        """complete: the chain goes on with another job."""
        run.state, run.result = State.COMPLETED, None
        if run.position:
            run.free_at = now + self.settings.result_ttl_ms
        else:
            run.chain, run.chain_state = run.run, OPEN
        following = self.insert(now, job, number, chain=run.chain, position=run.position + 1)
        if first := self.first_of(run):
            first.tail = number
        self.give_up(now, following)

    def reopen(self, now: int, run: ModelRun) -> None:
        """The chain of a later job that runs anew goes on with it."""
        if first := self.first_of(run):
            first.chain_state, first.tail, first.result = OPEN, run.run, None
            first.free_at = first.expires_at = None

    def others(self, first: ModelRun) -> list[ModelRun]:
        """Return the jobs of a chain, its first aside."""
        return [run for run in self.runs.values() if run.position and run.chain == first.run]
