"""Chains and blockers: completed from outside, deleted, and what a look at them shows."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from ....core.chain import OPEN
from ....core.transition import Reply
from ..bench import QUEUE
from .base import MachineBase
from .step import LOOK_EVERY, ids, often


class ChainSteps(MachineBase):
    """What is done to whole chains."""

    @often(1, id=ids)
    def complete_from_outside(self, id: str) -> None:
        self.payloads += 1
        result = b"outside %d" % self.payloads
        word = self._run(self.store.complete_chain(QUEUE, id, None, result))
        right = self.model.complete_chain(self.now, id, result)
        assert word == right, f"{word}, and {right} was right"

    @often(1, id=ids, cascade=st.booleans())
    def delete_a_chain(self, id: str, cascade: bool) -> None:
        deleted = self._run(self.store.delete_chain(QUEUE, id, cascade=cascade))
        run = self.model.answering(id, self.now)
        if run is None:
            assert deleted.reply is Reply.MISSING
        elif (waiting := self.model.waiting_for(run)) and not cascade:
            assert (deleted.reply, {ref.run for ref in deleted.waiting}) == (Reply.WRONG_STATE, waiting)
        else:
            assert (deleted.reply, deleted.chains) == (Reply.OK, self.model.cascade(self.now, run))

    @invariant()
    def every_chain_is_as_the_model_says(self) -> None:
        for first in self.model.kept(self.now):
            if first.chain_state is None or self.taken % LOOK_EVERY:
                continue
            chain = self._run(self.store.chain(QUEUE, first.id, first.run))
            assert chain is not None
            last = self.model.runs.get(first.tail or 0)
            state = last.state if first.chain_state == OPEN and last else first.outcome
            seen = (chain.ref.run, chain.state, chain.result)
            assert seen == (first.run, state, first.result), f"{chain}, and {first} was right"
            if last is not None:
                assert (chain.position, chain.current.run) == (last.position, last.run)

    @invariant()
    def every_blocker_is_as_the_model_says(self) -> None:
        for run in self.model.kept(self.now):
            if not run.waits or self.taken % LOOK_EVERY:
                continue
            found = self._run(self.store.blockers(QUEUE, run.id, run.run))
            seen = [(each.ref.id, each.state, each.result) for each in found]
            assert seen == [(wait.id, wait.state, wait.result) for wait in run.waits], f"{seen}, of {run}"
