"""Random interleavings of several workers, crashes, clock steps, limit changes, conflicts, chains and blockers.

A Hypothesis state machine does the same to a store and to the pure model, and compares them after every step.
`HOLDFAST_HYPOTHESIS=long` runs for hours instead of seconds.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from ..case import Case
from ..harness import Harness
from .chain import ChainSteps
from .check import StepChecks
from .limit import LimitSteps
from .produce import ProduceSteps
from .step import RATES, SMALL, steps
from .work import WorkSteps


class StoreMachine(ProduceSteps, ChainSteps, WorkSteps, LimitSteps, StepChecks):
    """All steps, of which each example takes some."""

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
        self.taken += 1
        name, arguments = step
        getattr(self, name)(**arguments)


def budget() -> settings:
    """Return how much is tried: a fixed, modest amount, or with `HOLDFAST_HYPOTHESIS=long` far more, at random."""
    long = os.environ.get("HOLDFAST_HYPOTHESIS") == "long"
    return settings(
        max_examples=2000 if long else 30,
        stateful_step_count=100 if long else 40,
        derandomize=not long,
        database=None,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )


class MachineCases(Case):
    """The store and the pure model, side by side."""

    @pytest.mark.timeout(0 if os.environ.get("HOLDFAST_HYPOTHESIS") == "long" else 300)
    def test_random_interleavings_agree_with_the_model(self, harness: Harness) -> None:
        machine = type("StoreMachine", (StoreMachine,), {"harness": harness})
        run_state_machine_as_test(machine, settings=budget())
