"""Producers and operators."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from ....core.chain import BlockerRef, OnBlockerFailed
from ....store.contract import (
    Conflict,
    DedupSpec,
    Filter,
    NewJob,
    OnFailed,
    Running,
)
from ..bench import QUEUE, TASK
from .base import MachineBase
from .step import DELAYS, blockers, conflicts, dedups, ids, keys, often, picks, policies, priorities


class ProduceSteps(MachineBase):
    """Enqueueing, cancelling, deleting, running anew."""

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

    @often(
        4,
        id=ids,
        after=blockers,
        policy=policies,
        key=keys,
        delay=DELAYS,
        on_failed=st.sampled_from(["keep", "requeue"]),
    )
    def enqueue_after_others(
        self,
        id: str,
        after: list[str],
        policy: OnBlockerFailed,
        key: str | None,
        delay: int | None,
        on_failed: OnFailed,
    ) -> None:
        refs = tuple(BlockerRef(QUEUE, each) for each in after if each != id)
        job = self._job(id, key, 0, delay, None)
        job = msgspec.structs.replace(job, blockers=refs, on_blocker_failed=policy)
        self._enqueue([job], Conflict(on_failed=on_failed))

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
    def cancel(self, id: str, pick: int, running: Running) -> None:
        busy = [*self.model.successors] or [run.id for run in self.model.active()]
        id = busy[pick % len(busy)] if busy and pick % 2 else self._one_of(id, pick)
        found = self._run(self.store.cancel(QUEUE, id, running))
        right = self.model.cancel(self.now, id, running)
        assert (found.reply, found.state, found.successor) == right, f"{found}, and {right} was right"

    @often(3, id=ids, pick=picks, what=st.sampled_from(["promote", "delete", "requeue", "expire"]))
    def steer(self, id: str, pick: int, what: str) -> None:
        id = self._one_of(id, pick)
        if what == "promote":
            assert self._run(self.store.promote(QUEUE, id)) == self.model.promote(self.now, id)
        elif what == "delete":
            assert self._run(self.store.delete(QUEUE, id)) == self.model.delete(self.now, id)
        elif what == "requeue":
            done = self._run(self.store.requeue(Filter(queue=QUEUE)))
            self.model.requeue(self.now, [(id, run) for _, id, run in done])
        else:
            assert self._run(self.store.expire(QUEUE, 1000)).runs == self.model.expire(self.now)
