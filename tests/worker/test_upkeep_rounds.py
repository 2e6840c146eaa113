"""Rounds of upkeep: of few queues all are looked after, of many those in which there is something to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from msgspec.structs import replace

from holdfast.core.bound import FEW_QUEUES
from holdfast.store.contract import QueueChores, Store
from holdfast.worker.upkeep.rounds import ROUNDS, Round, Rounds

FEW = tuple(f"q{number}" for number in range(FEW_QUEUES))
MANY = tuple(f"q{number}" for number in range(10 * ROUNDS))


class Told:
    """A store that says what there is to do."""

    def __init__(self, **chores: object) -> None:
        self.told = QueueChores(**chores)  # type: ignore[arg-type]
        self.asked: list[tuple[Sequence[str], str | None]] = []

    async def chores(self, queues: Sequence[str], but: str | None = None) -> QueueChores:
        self.asked.append((queues, but))
        return self.told


def rounds(store: Told) -> Rounds:
    return Rounds(cast(Store, store), "mine")


async def test_of_few_queues_all_are_looked_after_and_nothing_is_asked() -> None:
    store = Told()
    assert await rounds(store).next(FEW, True) == Round(reap=FEW, expire=FEW, learn=FEW)
    assert store.asked == []


async def test_of_many_queues_those_are_looked_after_that_the_store_names() -> None:
    store = Told(reap=("q7",), expire=("q8", "q9"), next_ms=500, policies="1")
    round = await rounds(store).next(MANY, True)
    assert (store.asked, round.next_ms) == ([(MANY, "mine")], 500)
    assert round.reap[0] == "q7"
    assert list(round.expire[:2]) == ["q8", "q9"]
    assert len({*round.reap, *round.expire, *round.learn}) <= 3 + len(MANY) // ROUNDS


async def test_each_of_many_queues_has_its_turn_whatever_the_store_says() -> None:
    chosen = rounds(Told())
    seen = [await chosen.next(MANY, True) for _ in range(ROUNDS)]
    for kind in ("reap", "expire", "learn"):
        assert {queue for round in seen for queue in getattr(round, kind)} == set(MANY)


async def test_policies_are_read_anew_where_one_has_changed() -> None:
    store = Told(policies="1")
    chosen = rounds(store)
    assert len((await chosen.next(MANY, True)).learn) == len(MANY) // ROUNDS
    store.told = replace(store.told, policies="2")
    assert (await chosen.next(MANY, True)).learn == MANY
    assert len((await chosen.next(MANY, True)).learn) == len(MANY) // ROUNDS


async def test_a_round_for_a_lease_takes_nothing_from_those_that_sweep() -> None:
    store = Told(reap=("q7",), expire=("q8",), next_ms=500, policies="1")
    chosen = rounds(store)
    seen: set[str] = set()
    for _ in range(ROUNDS):
        seen.update((await chosen.next(MANY, True)).learn)
        assert await chosen.next(MANY, False) == Round(reap=("q7",), expire=(), learn=(), next_ms=500)
    assert seen == set(MANY)
    store.told = replace(store.told, policies="2")
    await chosen.next(MANY, False)
    assert (await chosen.next(MANY, True)).learn == MANY


def test_while_the_store_is_away_each_queue_has_its_turn() -> None:
    chosen = rounds(Told())
    assert {queue for _ in range(ROUNDS) for queue in chosen.in_turn(MANY).reap} == set(MANY)
    assert chosen.in_turn(FEW) == Round(reap=FEW, expire=FEW, learn=FEW)
