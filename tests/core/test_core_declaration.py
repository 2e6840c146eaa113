"""What code declares and operators set, decided without any store."""

from __future__ import annotations

import pytest

from holdfast import ConfigError, PolicyConflict, Rate
from holdfast.core.bound import ALL_WORKERS, FAILED_KEPT_MS, FOR_EVER_MS
from holdfast.core.declaration import (
    Declaration,
    DeclaredTask,
    View,
    adjust,
    check_version,
    configure,
    declare,
    limit_key,
)
from holdfast.core.limit import Retention
from holdfast.core.policy import Policy, Retry
from holdfast.core.state import State

EMPTY = View(queue="mail")
ONCE, TWICE = Policy(retry=Retry(failures=1)), Policy(retry=Retry(failures=2))


def declaration(version: int = 1, *, partial: bool = False, tasks: dict[str, Policy] | None = None, **settings: object):
    return Declaration(queue="mail", version=version, settings=settings, partial=partial, tasks=tasks or {})


# --- declare


def test_a_first_declaration_is_written_and_wakes_as_many_as_may_run() -> None:
    change = declare(EMPTY, declaration(concurrency=3, tasks={"send": ONCE}))
    assert (change.queue, change.tasks, change.recheck, change.wake) == (True, ("send",), True, 3)
    assert change.view.settings().concurrency == 3
    assert change.view.policy("send") == ONCE
    assert change.view.version == 1


def test_without_a_limit_all_workers_are_woken() -> None:
    assert declare(EMPTY, declaration(tasks={"send": ONCE})).wake == ALL_WORKERS


def test_the_same_declaration_again_changes_nothing() -> None:
    view = declare(EMPTY, declaration(concurrency=3, tasks={"send": ONCE})).view
    change = declare(view, declaration(concurrency=3, tasks={"send": ONCE}))
    assert not change
    assert (change.recheck, change.wake, change.view) == (False, 0, view)


def test_a_higher_version_of_the_same_is_noted_and_wakes_nobody() -> None:
    view = declare(EMPTY, declaration(concurrency=3)).view
    change = declare(view, declaration(2, concurrency=3))
    assert (change.queue, change.recheck, change.wake, change.view.version) == (True, False, 0, 2)


def test_a_higher_version_wins_and_a_lower_one_is_ignored() -> None:
    view = declare(EMPTY, declaration(2, concurrency=3, tasks={"send": ONCE})).view
    assert declare(view, declaration(3, concurrency=9)).view.settings().concurrency == 9
    assert not declare(view, declaration(1, concurrency=9, tasks={"send": TWICE}))


def test_one_version_with_two_values_is_a_conflict() -> None:
    view = declare(EMPTY, declaration(concurrency=5, tasks={"send": ONCE})).view
    with pytest.raises(PolicyConflict, match="concurrency is 5 in the store, and 9 here"):
        declare(view, declaration(concurrency=9))
    with pytest.raises(PolicyConflict, match="task 'send' of queue 'mail' was declared before with version 1"):
        declare(view, declaration(concurrency=5, tasks={"send": TWICE}))


def test_a_partial_declaration_leaves_the_rest_alone() -> None:
    view = declare(EMPTY, declaration(concurrency=5)).view
    change = declare(view, declaration(2, partial=True, key_required=True))
    assert change.view.declared == {"concurrency": 5, "key_required": True}
    assert not declare(view, declaration(partial=True, key_required=True)), "who names the queue decides"


def test_settings_that_no_queue_can_have_are_refused() -> None:
    with pytest.raises(ValueError, match="concurrency=0"):
        declare(EMPTY, declaration(concurrency=0))


def test_what_an_operator_set_stays_above_what_is_declared() -> None:
    view = configure(EMPTY, {"concurrency": 2}).view
    change = declare(view, declaration(concurrency=5))
    assert (change.view.settings().concurrency, change.wake) == (2, 2)


# --- configure


def test_configure_sets_and_clears() -> None:
    view = configure(EMPTY, {"concurrency": 2, "paused": True}).view
    change = configure(view, {"rate": Rate(5)}, ["paused"])
    assert change.view.operator == {"concurrency": 2, "rate": {"count": 5, "per": 1.0, "burst": None}}
    assert change.view.settings().rate == Rate(5)
    assert (change.queue, change.recheck, change.wake) == (True, False, 2)


@pytest.mark.parametrize("set", [{"key_concurrency": 1}, {"key_rate": Rate(1)}])
def test_a_limit_of_keys_makes_all_keys_be_looked_at_again(set: dict[str, object]) -> None:
    change = configure(EMPTY, set)
    assert change.recheck
    assert not configure(change.view, set).recheck
    assert configure(change.view, {}, list(set)).recheck


@pytest.mark.parametrize(("set", "clear"), [({"colour": 1}, []), ({}, ["colour"])])
def test_an_unknown_setting_of_a_queue_is_refused(set: dict[str, object], clear: list[str]) -> None:
    with pytest.raises(ConfigError, match="'colour' is not a setting of a queue; known are paused, "):
        configure(EMPTY, set, clear)


def test_a_value_that_cannot_be_names_the_queue() -> None:
    with pytest.raises(ConfigError, match=r"queue 'mail': .*concurrency=0"):
        configure(EMPTY, {"concurrency": 0})


def test_an_operator_can_set_anew_what_cannot_be_read() -> None:
    broken = View(queue="mail", operator={"key_concurrency": "many"})
    assert configure(broken, {"key_concurrency": 2}).view.settings().key_concurrency == 2


# --- adjust


def test_adjust_sets_above_what_is_declared_and_clears() -> None:
    view = View(queue="mail", tasks={"send": DeclaredTask(1, TWICE)})
    change = adjust(view, "send", {"failures": 9, "timeout_ms": 1000})
    assert (change.tasks, change.queue, change.recheck, change.wake) == (("send",), False, False, 0)
    assert (change.view.policy("send").retry.failures, change.view.policy("send").timeout_ms) == (9, 1000)
    cleared = adjust(change.view, "send", {}, ["failures", "timeout_ms"])
    assert cleared.view == view
    assert cleared.view.policies() == {"send": TWICE}


def test_a_task_that_nobody_declared_can_be_adjusted() -> None:
    view = adjust(EMPTY, "send", {"failures": 9}).view
    assert view.policies() == {"send": Policy(retry=Retry(failures=9))}
    assert adjust(view, "send", {}, ["failures"]).view.policies() == {}


@pytest.mark.parametrize(("set", "clear"), [({"colour": 1}, []), ({}, ["colour"])])
def test_an_unknown_setting_of_a_task_is_refused(set: dict[str, object], clear: list[str]) -> None:
    with pytest.raises(ConfigError, match="'colour' is not a setting of a task; known are failures, "):
        adjust(EMPTY, "send", set, clear)


# --- limit_key


@pytest.mark.parametrize(("concurrency", "wake"), [(3, 3), (None, ALL_WORKERS)])
def test_a_key_gets_a_limit_or_loses_it(concurrency: int | None, wake: int) -> None:
    change = limit_key(EMPTY, "k", concurrency)
    assert (change.key, change.key_concurrency, change.recheck, change.wake) == ("k", concurrency, True, wake)
    assert change


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5])
def test_a_limit_of_a_key_that_cannot_be_is_refused(concurrency: int) -> None:
    with pytest.raises(ConfigError, match=r"key 'k': concurrency=.*: a whole number from 1"):
        limit_key(EMPTY, "k", concurrency)


# --- versions and retention


@pytest.mark.parametrize("version", [-1, True, 1.0, "1", 2**53])
def test_a_version_that_cannot_be_is_refused(version: object) -> None:
    with pytest.raises(ConfigError, match="a whole number from 0 on"):
        check_version(version)


@pytest.mark.parametrize(
    ("retention", "state", "kept"),
    [
        (Retention(), State.FAILED, FAILED_KEPT_MS),
        (Retention(failed=None), State.FAILED, FOR_EVER_MS),
        (Retention(), State.COMPLETED, 0),
        (Retention(completed=2.5), State.COMPLETED, 2500),
        (Retention(completed=2.5), State.CANCELLED, 0),
    ],
)
def test_how_long_a_run_is_kept_follows_from_how_it_ended(retention: Retention, state: State, kept: int) -> None:
    assert retention.kept_ms(state) == kept
