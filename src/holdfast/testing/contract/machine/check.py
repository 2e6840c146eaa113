"""What must hold after every step."""

from __future__ import annotations

from hypothesis.stateful import invariant

from ....core.state import State
from ....store.contract import (
    Filter,
)
from ..bench import QUEUE
from .base import MachineBase
from .step import IDS, LOOK_EVERY


class StepChecks(MachineBase):
    """The store is as the model says."""

    @invariant()
    def every_run_is_as_the_model_says(self) -> None:
        jobs = self._run(self.store.jobs(Filter(queue=QUEUE), limit=1000)).jobs
        kept = {run.run: run for run in self.model.kept(self.now)}
        assert {job.run for job in jobs} == set(kept), "nothing is lost, and nothing comes from nowhere"
        for job in jobs:
            seen = (
                job.run, job.state, job.counters, job.payload, job.priority, job.key, job.run_at_ms,
                job.holds_id, job.cancel_requested, job.successor, job.result, job.chain and job.chain.run,
                job.position, job.chain_state, job.blockers, job.company, job.snoozes,
            )  # fmt: skip
            run = kept[job.run]
            successor = run.outcome is State.ACTIVE and run.id in self.model.successors
            right = run.seen(self.now, successor)
            assert seen == right, f"{seen}, and {right} was right"
        active = [job.id for job in jobs if job.state is State.ACTIVE]
        assert len(active) == len(set(active)), "an id is active twice"

    @invariant()
    def every_id_is_answered_for_by_the_right_run(self) -> None:
        for id in () if self.taken % LOOK_EVERY else IDS:
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
            self.replay.add(event)
        self.replay.check()
        there = {number: run for (_, number), run in self.replay.runs.items() if run.state is not None}
        right = {run.run: (run.state, run.counters) for run in self.model.runs.values()}
        assert {number: (run.state, run.counters) for number, run in there.items()} == right

    def teardown(self) -> None:
        try:
            self._run(self.bench.replayed())
            left = self._run(self.bench.leftovers())
            assert not left, f"after every job had gone, these were left: {dict(left)}"
        finally:
            self._run(self.bench.close())
            self.runner.close()
