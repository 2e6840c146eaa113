"""What becomes of a schedule: layers, pauses, changes, and the ticks that are due. All without a store."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast import At, ConfigError, Cron, Every, Plan, PolicyConflict, Schedule
from holdfast.core import schedule as core
from holdfast.core.envelope import Envelope

MINUTE = 60_000
NOW = 1_700_000_040_000  # on the minute
PLAN = Plan(spec=Every(60), task="t", payload=b"{}")


def made(plan: Plan = PLAN, now: int = NOW, **fields: object) -> Schedule:
    """Return a schedule that was added live."""
    found = core.change(Schedule(queue="q", name="s"), core.fields(plan), (), now)
    return replace(found, **fields)


def declared(plan: Plan = PLAN, version: int = 0, now: int = NOW) -> Schedule:
    return core.declare(Schedule(queue="q", name="s"), plan, version, now)


def caught_up(catch_up: str, late: int, **rules: object) -> list[int]:
    """Return how many minutes after the first tick each job's tick was, when all were looked at so many ms late."""
    plan = replace(PLAN, catch_up=catch_up, **rules)
    schedule = made(plan)
    assert schedule.next_at_ms is not None
    firing = core.due(schedule, schedule.next_at_ms + late)
    assert firing.after is not None
    assert firing.after.next_at_ms is not None
    assert firing.after.next_at_ms > schedule.next_at_ms + late
    return [(tick - schedule.next_at_ms) // MINUTE for tick in firing.ticks]


# --- what is due


def test_a_schedule_begins_with_the_first_tick_after_it_was_made() -> None:
    assert made().next_at_ms == NOW + MINUTE
    assert core.due(made(), NOW + MINUTE - 1).ticks == []


@pytest.mark.parametrize("catch_up", ["one", "skip", "all"])
def test_a_tick_in_time_fires_whatever_the_rule(catch_up: str) -> None:
    assert caught_up(catch_up, 0) == [0]
    assert caught_up(catch_up, 20) == [0]


def test_of_missed_ticks_the_latest_fires() -> None:
    assert caught_up("one", 10 * MINUTE + 30_000) == [10]


def test_of_missed_ticks_all_fire_up_to_the_limit_and_those_are_the_latest() -> None:
    assert caught_up("all", 3 * MINUTE) == [0, 1, 2, 3]
    assert caught_up("all", 30 * MINUTE, limit=2) == [29, 30]


def test_missed_ticks_are_skipped_unless_they_are_fresh() -> None:
    assert caught_up("skip", 10 * MINUTE + 30_000, grace_ms=20_000) == []
    assert caught_up("skip", 10 * MINUTE + 10_000, grace_ms=20_000) == [10]


def test_no_tick_fires_twice_however_the_clock_jumps() -> None:
    schedule, fired = made(replace(PLAN, catch_up="all")), []
    for now in (NOW + MINUTE, NOW - MINUTE, NOW + MINUTE, NOW + 4 * MINUTE, NOW, NOW + 5 * MINUTE):
        firing = core.due(schedule, now)
        fired += firing.ticks
        assert firing.after is not None
        schedule = firing.after
    assert fired == [NOW + number * MINUTE for number in (1, 2, 3, 4, 5)]
    assert (schedule.fired, schedule.last_at_ms) == (5, NOW + 5 * MINUTE)


def test_neither_pause_nor_change_brings_a_tick_back_after_the_clock_went_back() -> None:
    after = core.due(made(), NOW + MINUTE).after
    assert after is not None
    long_ago = NOW - 100 * MINUTE
    again = core.pause(core.pause(after, True, long_ago), False, long_ago)
    assert again.next_at_ms == NOW + 2 * MINUTE
    assert core.change(
        after, {"spec": core.fields(replace(PLAN, spec=Every(30)))["spec"]}, (), long_ago
    ).next_at_ms == (NOW + MINUTE + 30_000)


def test_one_that_was_added_live_goes_with_its_last_tick_and_a_declared_one_stays() -> None:
    once = replace(PLAN, spec=At((NOW + MINUTE) / 1000))
    assert core.due(made(once), NOW + MINUTE) == core.Firing([NOW + MINUTE], None)
    stays = core.due(declared(once), NOW + MINUTE).after
    assert stays is not None
    assert (stays.next_at_ms, stays.upcoming()) == (None, [])


# --- who said what


def test_a_pause_ends_with_the_next_tick_and_catches_nothing_up() -> None:
    paused = core.pause(made(), True, NOW)
    assert (paused.paused, paused.next_at_ms, core.due(paused, NOW + 10 * MINUTE).ticks) == (True, None, [])
    resumed = core.pause(paused, False, NOW + 10 * MINUTE + 1)
    assert resumed.next_at_ms == NOW + 11 * MINUTE
    assert core.pause(resumed, False, NOW) is resumed


def test_another_time_begins_with_its_first_tick_and_another_payload_leaves_the_time_alone() -> None:
    overdue = made()
    later = NOW + 10 * MINUTE
    assert core.change(overdue, {"payload": b"2"}, (), later).next_at_ms == overdue.next_at_ms
    cron = core.fields(replace(PLAN, spec=Cron("0 * * * *")))["spec"]
    changed = core.change(overdue, {"spec": cron}, (), later)
    assert changed.next_at_ms == Cron("0 * * * *").next_ms(later)


def test_a_higher_version_wins_and_a_lower_one_is_ignored() -> None:
    first, other = declared(version=2), replace(PLAN, payload=b"other")
    assert core.declare(first, other, 1, NOW) is first
    assert core.declare(first, PLAN, 2, NOW) is first
    assert core.declare(first, other, 3, NOW).plan == other
    with pytest.raises(
        PolicyConflict,
        match=r"schedule 's' of queue 'q' .* with version 2 .*payload is .* and 'b3RoZXI=",
    ):
        core.declare(first, other, 2, NOW)
    assert core.declare(first, other, 2, NOW, overrules=True).plan == other
    assert core.declare(first, other, 1, NOW, overrules=True) is first


def test_what_an_operator_changed_outlives_the_next_declaration_until_it_is_cleared() -> None:
    changed = core.change(declared(), {"catch_up": "skip"}, (), NOW)
    again = core.declare(changed, replace(PLAN, payload=b"new", catch_up="all"), 1, NOW)
    assert (again.plan.payload, again.plan.catch_up) == (b"new", "skip")
    assert core.change(again, {}, ["catch_up"], NOW).plan.catch_up == "all"


def test_a_paused_schedule_stays_paused_when_it_is_declared_anew() -> None:
    paused = core.pause(declared(), True, NOW)
    again = core.declare(paused, replace(PLAN, spec=Every(30)), 1, NOW)
    assert (again.paused, again.next_at_ms) == (True, None)


def test_what_was_added_live_lies_above_what_code_declares_later() -> None:
    live = made(replace(PLAN, payload=b"live"))
    both = core.declare(live, PLAN, 0, NOW)
    assert both.plan.payload == b"live"
    assert core.change(both, {}, list(Plan.__struct_fields__), NOW).plan == PLAN


def test_what_no_code_declares_has_nothing_to_go_back_to() -> None:
    with pytest.raises(ConfigError, match="schedule 's' is declared by no code"):
        core.change(made(), {}, ["spec"], NOW)


# --- in the store


def test_a_schedule_comes_back_as_it_was_stored() -> None:
    schedule = core.change(declared(replace(PLAN, envelope=Envelope(headers={"a": "b"}))), {"limit": 7}, (), NOW)
    schedule = replace(schedule, revision="r", last_at_ms=5, fired=3)
    assert core.read("q", "s", "r", schedule.next_at_ms, core.body(schedule)) == schedule


def test_one_that_cannot_be_read_here_says_so() -> None:
    for stored in (b"\xc1", b"", core.body(replace(declared(), changes={"spec": {"type": "moon"}}))):
        with pytest.raises(ConfigError, match="schedule 's' of queue 'q' cannot be read here"):
            core.read("q", "s", "r", None, stored)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ({"catch_up": "some"}, "catch_up='some': 'one', 'skip' or 'all'"),
        ({"overlap": "maybe"}, "overlap='maybe': 'allow', 'skip' or 'successor'"),
        ({"limit": 0}, "limit=0: a whole number from 1 to 1000"),
    ],
)
def test_rules_that_cannot_be_are_refused(rules: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Plan(spec=Every(1), task=None, payload=b"", **rules)  # type: ignore[arg-type]
