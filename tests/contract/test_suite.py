"""The suite itself: it ran for every store, it is whole, and the SQL says what the table says."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from importlib.resources import files
from pathlib import Path

import pytest
from stores import HARNESSES

from holdfast.core.transition import TRANSITIONS, header
from holdfast.store.redis.connection import library
from holdfast.store.redis.keys import ENDINGS, STORE_ENDINGS
from holdfast.store.url import _BUILT_IN
from holdfast.testing import contract
from holdfast.testing.clock import ManualClock
from holdfast.testing.contract import StoreContract
from holdfast.testing.contract.case import Case
from holdfast.testing.contract.harness import SPOILABLE, Harness, Meddling
from holdfast.testing.contract.machine import budget
from holdfast.testing.contract.machine.step import STEPS
from holdfast.testing.contract.spoil import PARTS


def test_every_built_in_store_runs_the_suite(pytestconfig: pytest.Config) -> None:
    schemes = {"cluster": "redis+cluster", **{name: name for name in HARNESSES if name != "cluster"}}
    assert {_BUILT_IN[schemes[name]] for name in HARNESSES} == set(_BUILT_IN.values())
    files = {scheme: importlib.import_module(f"test_contract_{scheme}") for scheme in HARNESSES}
    assert {scheme for scheme, file in files.items() if file.TestContract.scheme == scheme} == set(HARNESSES)


def test_every_built_in_store_ran_each_test_of_it(request: pytest.FixtureRequest) -> None:
    """Whatever was selected of the suite, was selected for every store."""
    ran: dict[str, set[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.cls is not None and issubclass(item.cls, StoreContract):
            ran.setdefault(item.cls.scheme, set()).add(item.name)
    if "test_contract_" in str(request.config.invocation_params.args):
        return  # a store was chosen
    chosen = list(ran.values())
    assert all(tests == chosen[0] for tests in chosen)
    if not request.config.option.keyword:
        assert set(ran) in (set(), set(HARNESSES))


def test_every_part_of_the_suite_is_in_it() -> None:
    parts = set()
    for module in pkgutil.walk_packages(contract.__path__, f"{contract.__name__}."):
        found = importlib.import_module(module.name)
        parts |= {part for part in vars(found).values() if inspect.isclass(part) and issubclass(part, Case)}
    parts -= {Case, StoreContract}
    assert parts <= set(StoreContract.__mro__)


def test_whatever_a_harness_can_do_the_suite_asks_it_for() -> None:
    """The suite wraps every harness: a method that the wrapper lacks would quietly be the default, and test nothing."""
    assert {name for name, member in vars(Harness).items() if inspect.isfunction(member)} <= vars(Meddling).keys()


@pytest.mark.parametrize("scheme", HARNESSES)
def test_every_store_has_records_that_are_spoilt(scheme: str, tmp_path: Path) -> None:
    harness = HARNESSES[scheme](tmp_path)
    assert len(harness.ways("job")) >= PARTS
    assert sum(len(harness.ways(kind)) for kind in SPOILABLE) > 10 * PARTS


def test_no_test_of_one_part_hides_that_of_another() -> None:
    names = [
        name
        for part in StoreContract.__mro__
        if issubclass(part, Case)
        for name in vars(part)
        if name.startswith("test_")
    ]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", sorted(TRANSITIONS))
def test_the_sql_of_a_transition_begins_with_its_row_of_the_table(name: str) -> None:
    text = files("holdfast.store.sqlite").joinpath("sql", f"{name}.sql").read_text("utf-8")
    commented = "".join(f"-- {line}\n" for line in header(name).splitlines())
    assert text.startswith(commented + "\n")


@pytest.mark.parametrize("name", sorted(TRANSITIONS))
def test_the_lua_of_a_transition_begins_with_its_row_of_the_table(name: str) -> None:
    commented = "".join(f"-- {line}\n" for line in header(name).splitlines())
    assert library.text("transition", name).startswith(commented + "\n")


def test_the_library_is_made_of_every_file_and_transition() -> None:
    folders = files("holdfast.store.redis").joinpath("lua").iterdir()
    there = {(folder.name, entry.name.removesuffix(".lua")) for folder in folders for entry in folder.iterdir()}
    loaded = {(folder, name) for folder, names in library.FILES.items() for name in names}
    assert there == loaded | {("lib", "prelude")}
    assert set(library.TRANSITIONS) == set(TRANSITIONS)


def test_every_key_of_redis_is_in_the_reference() -> None:
    page = Path(__file__).parents[2].joinpath("docs/reference/redis.md").read_text("utf-8")
    for ending, kind, meaning in [*ENDINGS.values(), *STORE_ENDINGS.values()]:
        assert f"{ending}` | {kind} | {meaning} |" in page


def test_the_machine_takes_every_step_and_is_the_same_each_time() -> None:
    assert set(STEPS) >= {"enqueue", "claim", "settle", "cancel", "reap", "pass_time", "change_a_limit"}
    assert budget().derandomize


def test_a_leak_is_found(tmp_path: Path) -> None:
    """The look for leaks itself works: something that outlives its job is named."""

    async def leave_something() -> dict[str, int]:
        harness = HARNESSES["memory"](tmp_path)
        clock = ManualClock()
        store = harness.make(clock)
        await store.open()
        bench = contract.Bench(harness, store, clock)
        try:
            await bench.add("j", key="k")
            await harness.lose(store, "q", "j")
            return dict(await bench.leftovers())
        finally:
            await bench.close()

    assert asyncio.run(leave_something()) == {"holdfast_lane": 1}


def test_a_harness_that_was_not_given_is_asked_for() -> None:
    with pytest.raises(NotImplementedError, match="harness"):
        inspect.unwrap(Case.harness._get_wrapped_function())(Case())  # type: ignore[attr-defined]


def test_a_manual_clock_only_goes_forwards() -> None:
    clock = ManualClock(1000)
    assert (clock(), clock.advance(1.5), clock.now_ms) == (1000, 2500, 2500)
    with pytest.raises(ValueError, match="only goes forwards"):
        clock.advance(-1)
