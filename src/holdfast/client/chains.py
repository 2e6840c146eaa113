"""Delete many chains: those that wait for others among them go first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from ..core.chain import ChainRef
from ..core.transition import Reply
from ..errors import ConfigError
from ..store.contract import ChainRecord, DeleteResult

Name = tuple[str, str, int | None]
"""Queue, id of the first job or any other, and its run; `None` is the one that answers for the id."""
Delete = Callable[[str, str, int | None, bool], Awaitable[DeleteResult]]
Find = Callable[[str, str, int | None], Awaitable[ChainRecord | None]]


def name_of(chain: ChainRef | tuple[str, str]) -> Name:
    """Return which chain is meant."""
    if isinstance(chain, ChainRef):
        return chain.queue, chain.id, chain.run
    if isinstance(chain, tuple) and len(chain) == 2:
        return chain[0], chain[1], None
    raise ConfigError(f"chains=[{chain!r}, ...]: give a ChainRef, or queue and id: ('orders', 'order-7')")


async def delete_all(
    chains: Iterable[ChainRef | tuple[str, str]], cascade: bool, delete: Delete, find: Find
) -> list[DeleteResult]:
    """Return the answer of each, in the order given. Only who waits and is not among them stands in the way."""
    names = [name_of(chain) for chain in chains]
    answers: dict[Name, DeleteResult] = {}
    left = list(dict.fromkeys(names))
    while True:
        refused = [name for name in reversed(left) if await _refused(name, answers, delete)]
        if not refused or len(refused) == len(left):
            break
        left = refused  # turned round each time, so that a line of them is done after two passes
    if refused and (cascade or await _is_circle(refused, answers, find)):
        await _delete_with_all(refused, answers, delete)
    return [answers[name] for name in names]


async def _refused(name: Name, answers: dict[Name, DeleteResult], delete: Delete) -> bool:
    answers[name] = await delete(*name, False)
    return answers[name].reply is Reply.WRONG_STATE


async def _is_circle(left: list[Name], answers: dict[Name, DeleteResult], find: Find) -> bool:
    """True when they wait for each other, and no other does. A waiter may be a later job of its chain."""
    known = {found.ref for name in left if (found := await find(*name))}
    waiters = {waiter for name in left for waiter in answers[name].waiting}
    for waiter in waiters:
        found = await find(waiter.queue, waiter.id, waiter.run)
        if found is not None and found.ref not in known:
            return False
    return True


async def _delete_with_all(left: list[Name], answers: dict[Name, DeleteResult], delete: Delete) -> None:
    for name in left:
        answer = await delete(*name, True)
        gone = answer.reply is Reply.MISSING  # it was there, and went with another of them
        answers[name] = DeleteResult(reply=Reply.OK) if gone else answer
