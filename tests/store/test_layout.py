"""The stores have one shape: a reader who knows one of them finds everything in the others."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

from holdfast.store.contract import Inspecting, Operating, Producing, Working

STORES = {"sqlite": "Sqlite", "redis": "Redis", "postgres": "Postgres"}
"""Each store that has the common shape, and how the names of its classes begin."""
OPERATE = ("declare", "configure", "adjust", "limit_key", "command")
SCHEDULE = ("put_schedule", "schedules", "due")
LISTEN = ("listen", "watch", "unwatch")
FOLDER = Path(import_module("holdfast.store").__path__[0])
Methods = dict[str, ast.AsyncFunctionDef | ast.FunctionDef]


def contract(protocol: type) -> list[str]:
    """Return the methods of a part of the contract, in its order."""
    return [name for name in vars(protocol) if not name.startswith("_")]


def parts() -> dict[str, list[str]]:
    """Return the methods that each part file of a store has, in the contract's order."""
    every = [*contract(Producing), *contract(Working), *contract(Inspecting), *contract(Operating)]
    named = {"operate": OPERATE, "schedule": SCHEDULE, "listen": LISTEN, "doctor": ("doctor",)}
    found = {part: [name for name in every if name in names] for part, names in named.items()}
    elsewhere = {name for names in named.values() for name in names}
    for part, protocol in (("produce", Producing), ("work", Working), ("inspect", Inspecting)):
        found[part] = [name for name in contract(protocol) if name not in elsewhere]
    return found


def classes(store: str, part: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse((FOLDER / store / f"{part}.py").read_text("utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def methods(node: ast.ClassDef) -> Methods:
    return {each.name: each for each in node.body if isinstance(each, ast.AsyncFunctionDef | ast.FunctionDef)}


def test_every_method_of_the_contract_belongs_to_one_part() -> None:
    placed = [name for names in parts().values() for name in names]
    assert len(placed) == len(set(placed))
    every = {name for part in (Producing, Working, Inspecting, Operating) for name in contract(part)}
    assert set(placed) == every


@pytest.mark.parametrize("part", ["store", "url", "transaction", "scan", *parts()])
@pytest.mark.parametrize("store", STORES)
def test_every_store_has_the_same_part_files(store: str, part: str) -> None:
    there = (FOLDER / store / f"{part}.py").is_file() or (FOLDER / store / part / "__init__.py").is_file()
    assert there or (store, part) == ("redis", "transaction"), "Redis alone has no transactions of a caller to join"


@pytest.mark.parametrize(("part", "names"), list(parts().items()))
@pytest.mark.parametrize("store", STORES)
def test_a_part_has_its_methods_in_the_order_of_the_contract(store: str, part: str, names: list[str]) -> None:
    found = [methods(node) for node in classes(store, part).values()]
    owner = next((each for each in found if set(names) <= set(each)), None)
    assert owner is not None, f"no class of {store}/{part}.py has all of {names}"
    assert [name for name in owner if name in names] == names


@pytest.mark.parametrize(("part", "names"), list(parts().items()))
@pytest.mark.parametrize("store", STORES)
def test_a_part_is_a_class_of_its_own_that_inherits_nothing(store: str, part: str, names: list[str]) -> None:
    ours = {name: node for name, node in classes(store, part).items() if name.startswith(STORES[store])}
    owners = [node for node in ours.values() if set(names) <= set(methods(node))]
    assert len(owners) == 1, f"one class {STORES[store]}… of {store}/{part}.py has {names}"
    assert owners[0].bases == []


@pytest.mark.parametrize("store", STORES)
def test_a_store_is_its_parts_and_one_line_a_method(store: str) -> None:
    node = classes(store, "store")[f"{STORES[store]}Store"]
    assert node.bases == [], "parts are held, not inherited"
    placed = {name for names in parts().values() for name in names}
    own = methods(node)
    assert placed <= set(own)
    for name in placed:
        body = [each for each in own[name].body if not (isinstance(each, ast.Expr) and _is_text(each.value))]
        assert len(body) == 1, f"{store}: {name} is more than one line"


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
