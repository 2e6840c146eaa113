"""The functions' headers describe each call once: code that packs arguments and unpacks replies agrees with them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.job import ErrorRecord
from holdfast.core.policy import Cause
from holdfast.store.contract import (
    KEEP,
    Answer,
    Complete,
    Failed,
    Filter,
    Lease,
    NewJob,
    Released,
    Retried,
    Session,
    Settlement,
    Snoozed,
)
from holdfast.store.postgres import sql
from holdfast.store.postgres.call import arguments, replies
from holdfast.store.postgres.call.entry import ServerFunction, entries, entry

CODE = Path(sql.__file__).parent
JOB = NewJob(id="j", task="t", payload=b"")
SESSION = Session(id="s", name="s", host="here", pid=1, queues=("q",))
LEASE = Lease("q", "j", 1, 1)
ERROR = ErrorRecord(type="E", message="m")
SETTLEMENTS: list[Settlement] = [
    Complete(LEASE, b"1"), Retried(LEASE, ERROR), Failed(LEASE, ERROR), Snoozed(LEASE, 5), Released(LEASE, 0),
    Released(LEASE, 0, ERROR, Cause.STALL, 3),
]  # fmt: skip
PASSED = {"repeatable", "patient"}
"""Keywords of a call that are not for the function."""


def turn(settlements: list[Settlement]) -> arguments.Arguments:
    return arguments.turn(None, SESSION, settlements, ["q"], room=1, park=False, held=0, only_suspects=False)


@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("enqueue", arguments.enqueue(None, "q", [JOB], KEEP)),
        ("enqueue_fresh", arguments.enqueue_fresh(None, "q", [JOB])),
        ("take_turn", {**turn([]), "lock_all": "false"}),
        ("take_turn", {**turn(SETTLEMENTS), "lock_all": "false"}),
        ("take_turn", {**turn(SETTLEMENTS[:1]), "lock_all": "false"}),
    ],
)
def test_what_is_packed_is_what_the_header_names(name: str, packed: arguments.Arguments) -> None:
    assert packed.keys() == entry(name).arguments.keys()


def calls() -> Iterator[tuple[str, set[str]]]:
    """Yield every call of a function by keywords, with the names of its arguments."""
    for file in CODE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            named = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
            if not named or node.func.attr not in ("call", "value") or not isinstance(node.args[0], ast.Constant):
                continue
            given = {keyword.arg for keyword in node.keywords if keyword.arg} - PASSED
            if any(keyword.arg is None for keyword in node.keywords):
                given |= set(arguments.selection(Filter()))
            yield node.args[0].value, given


def test_every_call_names_the_arguments_of_its_header() -> None:
    found = list(calls())
    assert len(found) > 20
    for name, given in found:
        assert given | {"clock"} == entry(name).arguments.keys() | {"clock"}, name


def test_a_settlement_has_the_word_of_its_transition_and_every_field_its_name() -> None:
    kinds = turn(SETTLEMENTS)["kinds"]
    assert kinds == '{"complete","retry","fail","snooze","release","release"}'
    assert turn(SETTLEMENTS)["companies"] == "{NULL,NULL,NULL,NULL,1,3}"
    assert turn(SETTLEMENTS)["run_ats"] == "{NULL,NULL,NULL,5,NULL,NULL}"


def test_answers_are_unpacked_in_the_order_of_their_type() -> None:
    (_, tables), *_ = sql.migrations()
    declared = re.search(r"CREATE TYPE holdfast\.answer AS \((.*?)\);", tables)
    assert declared is not None
    names = [part.split()[0] for part in declared[1].split(",")]
    assert names == ["status", "id", "run", "state", "result", "error"] == list(Answer.__struct_fields__)
    row = ("duplicate", "j", 3, "failed", b"1", b'{"type":"E","message":"m"}')
    assert replies.answer(row).run == 3


def test_rows_of_claimed_jobs_have_the_same_columns_wherever_they_come_from() -> None:
    assert entry("turn").replies == ("info", *entry("held").replies[:-1])


def test_a_header_is_read_as_it_is_written() -> None:
    assert entry("extend") == ServerFunction(
        "extend",
        {"clock": "bigint", "session": "text", "lease": "bigint", "memory": "bigint"},
        ("evicted", "late", "aborts", "command"),
        True,
    )
    assert entry("promote").statement() == (
        "SELECT holdfast.promote(p_clock => %(clock)s::bigint, p_queue => %(queue)s::text, p_id => %(id)s::text, "
        "p_actor => %(actor)s::text)"
    )


def test_no_function_takes_many_arguments_by_their_place() -> None:
    """Entry points are called by names alone; what is called inside takes a row instead of twenty arguments."""
    inside = [each for each in entries().values() if "clock" not in each.arguments]
    assert max(len(each.arguments) for each in inside) <= 10
