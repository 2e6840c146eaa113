"""When a worker keeps slots free for suspects: soon, not for long, and never for good."""

from __future__ import annotations

from holdfast.worker.turns.skipped_queues import FIRST_PATIENCE, IN_A_ROW, IN_VAIN, SuspectReserve

SERVED = ("a", "b")


def told(reserve: SuspectReserve, now: float, *left: str, less: bool = False, holding: bool = False) -> None:
    reserve.look(now, holding)
    reserve.told(now, SERVED, left, less)


def test_without_suspects_every_queue_is_asked_and_one_would_be_welcome() -> None:
    reserve = SuspectReserve()
    told(reserve, 0.0)
    assert (reserve.keeping, reserve.queues(SERVED), reserve.wants(0.0), reserve.seconds(0.0)) == (
        False, SERVED, True, None,
    )  # fmt: skip


def test_a_busy_worker_that_hears_of_a_suspect_makes_room_at_once_and_asks_its_queue_only() -> None:
    reserve = SuspectReserve()
    told(reserve, 5.0, "b")
    assert (reserve.keeping, reserve.queues(SERVED), reserve.wants(5.0)) == (True, ["b"], True)
    assert reserve.seconds(5.25) == FIRST_PATIENCE - 0.25


def test_it_stops_making_room_when_somebody_else_took_the_suspect() -> None:
    reserve = SuspectReserve()
    told(reserve, 0.0, "a")
    told(reserve, 0.1)
    assert not reserve.keeping
    told(reserve, 0.2, "a")
    assert reserve.keeping, "that was not in vain"


def test_in_vain_it_makes_room_for_twice_as_long_each_time_and_goes_on_for_longer_in_between() -> None:
    """Whatever runs for hours, other jobs have most of the time, and a suspect has its turn at last."""
    reserve, now, waited = SuspectReserve(), 0.0, []
    for _ in range(13):
        told(reserve, now, "a")
        began = now
        assert reserve.keeping
        now += reserve.seconds(now) or 0.0
        reserve.look(now, False)
        assert not reserve.keeping
        waited.append(now - began)
        told(reserve, now, "a")
        assert (reserve.keeping, reserve.wants(now)) == (False, False)
        now += IN_VAIN * waited[-1]
    assert waited == [FIRST_PATIENCE * 2**nth for nth in range(13)]
    assert waited[-1] > 3600
    assert sum(waited) <= now / (1 + IN_VAIN)


def test_whoever_has_suspects_takes_more_for_a_moment_and_then_others_have_as_long() -> None:
    reserve = SuspectReserve()
    told(reserve, 10.0, holding=True)
    assert reserve.wants(10.0 + IN_A_ROW / 2)
    assert not reserve.wants(10.0 + IN_A_ROW)
    reserve.look(13.0, False)
    told(reserve, 13.0, "a")
    assert (reserve.keeping, reserve.wants(15.9), reserve.wants(16.0)) == (False, False, True)
    told(reserve, 16.0, "a")
    assert reserve.keeping


def test_where_nobody_else_waits_suspects_come_one_after_the_other() -> None:
    reserve = SuspectReserve()
    told(reserve, 0.0, holding=True)
    reserve.look(5.0, False)
    assert not reserve.wants(5.0)
    told(reserve, 5.0, "a", less=True)
    assert reserve.wants(5.0)
    reserve.look(5.1, True)
    told(reserve, 7.0, "a", less=True, holding=True)
    assert reserve.wants(7.0), "and beside those that it has"


def test_turns_that_bring_nothing_do_not_make_it_wait_for_longer() -> None:
    reserve = SuspectReserve()
    told(reserve, 0.0, "a", less=True)
    told(reserve, FIRST_PATIENCE / 2, "a", less=True)
    reserve.look(FIRST_PATIENCE, False)
    assert not reserve.keeping
