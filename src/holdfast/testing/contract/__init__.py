"""The contract suite: it tells anyone whether their store is right. See `docs/contract.md`."""

from __future__ import annotations

import pytest

_PARTS = (
    "bench",
    "blocker",
    "cancel",
    "case",
    "chain",
    "chain_end",
    "chain_whole",
    "conflict",
    "counter",
    "effect",
    "grid",
    "idle",
    "lease",
    "limit",
    "log",
    "odd",
    "race",
    "result",
    "rival",
    "schedule",
    "spoil",
    "successor",
    "suspect",
    "watch",
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from .bench import Bench  # noqa: E402
from .blocker import Blockers  # noqa: E402
from .cancel import Cancels  # noqa: E402
from .chain import Chains  # noqa: E402
from .chain_end import ChainEnds  # noqa: E402
from .chain_whole import WholeChains  # noqa: E402
from .conflict import Conflicts  # noqa: E402
from .counter import Counting  # noqa: E402
from .effect import Effects  # noqa: E402
from .grid import Grid  # noqa: E402
from .harness import Clock, Harness  # noqa: E402
from .idle import Idling  # noqa: E402
from .lease import Leases  # noqa: E402
from .limit import Limits  # noqa: E402
from .log import Log  # noqa: E402
from .machine import Machine, StoreMachine  # noqa: E402
from .odd import Oddities  # noqa: E402
from .race import Races  # noqa: E402
from .result import Results  # noqa: E402
from .schedule import ScheduleKeeping  # noqa: E402
from .spoil import Spoils  # noqa: E402
from .successor import Successors  # noqa: E402
from .suspect import Suspects  # noqa: E402
from .watch import Watching  # noqa: E402


class StoreContract(
    Grid,
    Effects,
    Watching,
    Conflicts,
    Successors,
    Cancels,
    Counting,
    Results,
    Leases,
    Suspects,
    Idling,
    Limits,
    Log,
    Oddities,
    Spoils,
    Races,
    Chains,
    ChainEnds,
    WholeChains,
    Blockers,
    ScheduleKeeping,
    Machine,
):
    """Every test of the contract. Subclass it and override the fixture `harness`."""


__all__ = ["Bench", "Clock", "Harness", "StoreContract", "StoreMachine"]
