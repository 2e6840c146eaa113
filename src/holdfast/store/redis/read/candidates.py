"""Runs that may match a filter: by an index in their order, all that an index has, or, without one, every run."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import msgspec

from ....core.bound import GATHERED_AT_ONCE
from ....core.chain import ChainRef
from ....core.job import run_number
from ....core.state import LETTER, State
from ...contract import Filter
from ..arguments.inspect import MembersCall, RunsCall
from ..caller import RedisCaller, rid
from ..keys import short

_ORDERED = {State.FAILED: "letters", State.BLOCKED: "blocked"}
"""States whose runs an index has in their order."""
UNSIGNED = "-"
"""Stands for the signature of an error that the server made."""


class Runs:
    """Runs of one queue that are known, all of them."""

    def __init__(self, found: set[int]) -> None:
        self._runs = sorted(found)

    async def below(self, before: int, most: int) -> list[int]:
        """Return the newest below a run, at most so many; fewer, when there are no more."""
        at = bisect_left(self._runs, before)
        return self._runs[max(0, at - most) : at][::-1]


class OrderedRuns:
    """Runs of one queue that a sorted set has, with the run as their score."""

    def __init__(self, caller: RedisCaller, queue: str, names: list[str]) -> None:
        self._caller = caller
        self._keys = [caller.keys.of(queue, name) for name in names]

    async def below(self, before: int, most: int) -> list[int]:
        """Return the newest below a run, at most so many; fewer, when there are no more."""
        commands: list[list[Any]] = [
            ["ZRANGE", key, f"({before}", "-inf", "BYSCORE", "REV", "LIMIT", 0, most] for key in self._keys
        ]
        replies = await self._caller.server.ask_all(commands, self._keys[0])
        return sorted((int.from_bytes(each, "big") for reply in replies for each in reply), reverse=True)[:most]


class SignedRuns:
    """Runs of one queue whose error has a signature, or one that only clients know."""

    def __init__(self, caller: RedisCaller, queue: str, signature: str) -> None:
        self._caller = caller
        self._key = caller.keys.of(queue, "signatures")
        self._signatures = (signature.encode(), UNSIGNED.encode())

    async def below(self, before: int, most: int) -> list[int]:
        """Return the newest below a run, at most so many; fewer, when there are no more."""
        last = rid(min(before, 2**48 - 1))
        commands: list[list[Any]] = [
            ["ZRANGE", self._key, b"(" + each + last, b"[" + each, "BYLEX", "REV", "LIMIT", 0, most]
            for each in self._signatures
        ]
        signed, unsigned = await self._caller.server.ask_all(commands, self._key)
        size = len(self._signatures[0])
        runs = [each[size:] for each in signed if len(each) == size + 6] + [
            each[1:] for each in unsigned if len(each) == 7
        ]
        return sorted((int.from_bytes(each, "big") for each in runs), reverse=True)[:most]


class Candidates:
    """Finds where the runs come from that may match."""

    def __init__(self, caller: RedisCaller) -> None:
        self._caller = caller

    async def of(self, queue: str, which: Filter, chains: bool) -> Runs | OrderedRuns | SignedRuns | None:
        """Return the runs of one queue that may match; `None` when only a walk through all of them helps."""
        if chains:
            return OrderedRuns(self._caller, queue, ["chains"])
        if which.chain is not None:
            return Runs(await self._of_chain(queue, which.chain))
        if which.ids:
            return Runs(await self._of_ids(queue, which.ids))
        if which.signature is not None:
            return SignedRuns(self._caller, queue, which.signature)
        states = (State.ACTIVE,) if which.holders else which.states
        if states and all(state in _ORDERED for state in states):
            return OrderedRuns(self._caller, queue, [_ORDERED[state] for state in states])
        return await self._gathered(queue, "".join(LETTER[state] for state in states)) if states else None

    async def every(self, queue: str) -> Runs | None:
        """Return all runs of a queue, if they are few: for one whose numbers have fewer and fewer records."""
        return await self._gathered(queue, None)

    async def _gathered(self, queue: str, letters: str | None) -> Runs | None:
        found = await self._caller.read(queue, RunsCall(states=letters, most=GATHERED_AT_ONCE))
        return None if found is None else Runs({int.from_bytes(each, "big") for each in found})

    async def _of_chain(self, queue: str, chain: ChainRef) -> set[int]:
        run = run_number(chain.run)
        members = MembersCall(chain_queue=chain.queue, chain_id=chain.id, chain_run=run)
        runs = {int.from_bytes(each, "big") for each in await self._caller.read(queue, members)}
        return runs | {run} if queue == chain.queue else runs

    async def _of_ids(self, queue: str, ids: tuple[str, ...]) -> set[int]:
        keys, stored = self._caller.keys, [short(id) for id in ids]
        commands = [["HMGET", keys.of(queue, name), *stored] for name in ("ids", "past")]
        held, past = await self._caller.server.ask_all(commands, keys.declared(queue))
        runs = {int.from_bytes(each, "big") for each in held if each}
        return runs.union(*(_past_runs(each) for each in past if each))


def _past_runs(text: bytes) -> list[int]:
    try:
        return msgspec.msgpack.decode(text, type=list[int])
    except msgspec.MsgspecError:
        return []
