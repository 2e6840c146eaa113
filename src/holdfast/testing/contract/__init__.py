"""The contract suite: the tests that every store must pass. See `docs/contract.md`."""

from __future__ import annotations

import pytest

_PARTS = ("bench", "case", "chain", "effect", "grid", "operate", "produce", "race", "spoil", "watch", "work")
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from .bench import Bench  # noqa: E402
from .chain.blocker import BlockerCases  # noqa: E402
from .chain.chain import ChainCases  # noqa: E402
from .chain.chain_end import ChainEndCases  # noqa: E402
from .chain.chain_whole import ChainWholeCases  # noqa: E402
from .effect import EffectCases  # noqa: E402
from .grid import GridCases  # noqa: E402
from .harness import Clock, Harness  # noqa: E402
from .machine import MachineCases, StoreMachine  # noqa: E402
from .operate.action import ActionCases  # noqa: E402
from .operate.limit import LimitCases  # noqa: E402
from .operate.log import LogCases  # noqa: E402
from .operate.long_list import LongListCases  # noqa: E402
from .operate.look import LookCases  # noqa: E402
from .operate.schedule import ScheduleCases  # noqa: E402
from .operate.state_order import StateOrderCases  # noqa: E402
from .operate.tally import TallyCases  # noqa: E402
from .produce.cancel import CancelCases  # noqa: E402
from .produce.conflict import ConflictCases  # noqa: E402
from .produce.envelope import EnvelopeCases  # noqa: E402
from .produce.lookup import LookupCases  # noqa: E402
from .produce.odd import OddCases  # noqa: E402
from .produce.successor import SuccessorCases  # noqa: E402
from .race import RaceCases  # noqa: E402
from .spoil import SpoilCases  # noqa: E402
from .watch import WatchCases  # noqa: E402
from .work.cap import CapCases  # noqa: E402
from .work.chores import ChoreCases  # noqa: E402
from .work.command import CommandCases  # noqa: E402
from .work.counter import CounterCases  # noqa: E402
from .work.idle import IdleCases  # noqa: E402
from .work.lease import LeaseCases  # noqa: E402
from .work.result import ResultCases  # noqa: E402
from .work.suspect import SuspectCases  # noqa: E402


class StoreContract(
    GridCases,
    EffectCases,
    EnvelopeCases,
    WatchCases,
    ConflictCases,
    SuccessorCases,
    CancelCases,
    CounterCases,
    CapCases,
    ResultCases,
    LeaseCases,
    CommandCases,
    ChoreCases,
    SuspectCases,
    TallyCases,
    IdleCases,
    LimitCases,
    LogCases,
    LookCases,
    LongListCases,
    StateOrderCases,
    ActionCases,
    LookupCases,
    OddCases,
    SpoilCases,
    RaceCases,
    ChainCases,
    ChainEndCases,
    ChainWholeCases,
    BlockerCases,
    ScheduleCases,
    MachineCases,
):
    """Every test of the contract. Subclass it and override the fixture `harness`."""


__all__ = ["Bench", "Clock", "Harness", "StoreContract", "StoreMachine"]
