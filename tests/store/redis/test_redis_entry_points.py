"""Entry points of the library: what Python packs and unpacks is what the Lua names, in its header and in its code."""

from __future__ import annotations

import re
from typing import Any

import pytest

from holdfast.core.chain import BlockerRef
from holdfast.core.job import ErrorRecord
from holdfast.core.policy import Overrides
from holdfast.store.contract import (
    KEEP,
    Complete,
    Continuation,
    DedupSpec,
    Lease,
    NewJob,
    Retried,
    Settlement,
)
from holdfast.store.redis.arguments.enqueue import enqueue_call, job_arguments
from holdfast.store.redis.arguments.entry import ServerCall, header, in_groups, snake
from holdfast.store.redis.arguments.entry_points import ENTRY_POINTS
from holdfast.store.redis.arguments.produce import (
    AlikeArguments,
    CancelCall,
    CancelReply,
    EnqueueAlikeCall,
    EnqueueCall,
    JobArguments,
    KeepRunsCall,
)
from holdfast.store.redis.arguments.settlement import settlement_arguments
from holdfast.store.redis.arguments.work import ClaimedFields, SettlementArguments, TurnCall
from holdfast.store.redis.connection import library
from holdfast.store.redis.connection.library import FILES, function, text

SOURCE = "".join(text(folder, name) for folder, names in FILES.items() for name in names)
LEASE = Lease("q", "j", 7, 2)


@pytest.mark.parametrize("entry", ENTRY_POINTS, ids=snake)
def test_the_lua_of_an_entry_point_has_its_header(entry: type[ServerCall[Any]]) -> None:
    assert SOURCE.count(f"{header(entry)}H.serve('{snake(entry)}', function(call, keys") == 1


def test_every_entry_point_is_described_once() -> None:
    served = re.findall(r"^H\.serve\('(\w+)'", SOURCE, re.MULTILINE)
    assert sorted(served) == sorted(map(snake, ENTRY_POINTS))
    assert len(set(served)) == len(served)
    assert re.findall(r"register_function\(", SOURCE) == ["register_function("]  # of `version`, which has no arguments


@pytest.mark.parametrize("entry", ENTRY_POINTS, ids=snake)
def test_the_lua_reads_no_argument_that_is_not_described(entry: type[ServerCall[Any]]) -> None:
    served = SOURCE.split(f"H.serve('{snake(entry)}', ")[1].split("\nend)\n")[0]
    used = set(re.findall(r"\bcall\.(\w+)", served))
    assert used <= {"now", *entry.__struct_fields__}


def test_the_lua_writes_no_reply_that_is_not_described() -> None:
    described = {snake(entry): entry.reply for entry in ENTRY_POINTS}
    described |= {snake(group): group for entry in ENTRY_POINTS for group in entry.gives}
    written = re.findall(r"REPLY\.(\w+)\(\{(.*?)\}\)", SOURCE, re.DOTALL)
    assert written
    for name, body in written:
        flat = re.sub(r"\{[^{}]*\}|\([^()]*\)", "", re.sub(r"\([^()]*\)", "", body))
        assert set(re.findall(r"(\w+) = ", flat)) <= set(described[name]._fields), name


def test_no_entry_point_has_too_many_arguments() -> None:
    assert max(len(entry.__struct_fields__) for entry in ENTRY_POINTS) <= 10


def test_arguments_are_packed_behind_the_time_and_nothing_is_an_empty_text() -> None:
    assert CancelCall(request="r", id=b"j", running="kill", actor=None).packed("5") == ["5", "r", b"j", "kill", ""]
    assert KeepRunsCall(first=1, last=2, ttl_ms=None).packed("") == ["", 1, 2, ""]
    turn = TurnCall(
        shift=0, session="s", lease_ms=9, room=2, held=0, only_suspects=True, parks="", seed=3, received=None
    )  # fmt: skip
    assert turn.packed("") == ["", 0, "s", 9, 2, 0, 1, "", 3, ""]


def test_replies_have_names() -> None:
    call = CancelCall(request="", id=b"j", running="refuse", actor=None)
    assert call.answer([b"ok", b"waiting", 3, None, 1]) == CancelReply(b"ok", b"waiting", 3, None, 1)
    assert call.answer(None) is None
    with pytest.raises(TypeError):
        call.answer([b"ok", b"waiting"])


def test_jobs_are_packed_as_their_group_says() -> None:
    packed = job_arguments([NewJob(id="j", task="t", payload=b"p"), NewJob(id="k", task=None, payload=b"", priority=3)])
    first, second = (JobArguments._make(each) for each in in_groups(packed, JobArguments))
    assert first == JobArguments(id=b"j", task="t", payload=b"p", spec=b"")
    assert second == JobArguments(id=b"k", task="", payload=b"", spec=b'{"priority":3}')


def test_jobs_that_are_alike_say_so_once() -> None:
    alike = [NewJob(id=id, task="t", payload=id.encode(), key="k", fresh=id == "j") for id in ("j", "k")]
    call, more = enqueue_call("q", alike, KEEP, "r", 9)
    assert isinstance(call, EnqueueAlikeCall)
    assert (call.task, call.spec, call.count) == ("t", b"@k", 2)
    assert [AlikeArguments._make(each) for each in in_groups(more, AlikeArguments)] == [(b"j", b"j"), (b"k", b"k")]


@pytest.mark.parametrize(
    "other",
    [
        {"task": "u"}, {"task": None}, {"key": "k"}, {"priority": 1}, {"envelope": b"{}"}, {"watcher": "here#1"},
        {"delay_ms": 1}, {"run_at_ms": 1}, {"result_ttl_ms": 1}, {"overrides": Overrides(timeout_ms=1)},
        {"dedup": DedupSpec(key="d", scope="any", window_ms=None)}, {"blockers": (BlockerRef("q", "b", 1),)},
        {"on_blocker_failed": "cancel"},
    ],
    ids=lambda other: next(iter(other)),
)  # fmt: skip
def test_jobs_that_are_not_alike_say_each_what_they_are(other: dict[str, Any]) -> None:
    jobs = [NewJob(id="j", task="t", payload=b""), NewJob(**{"id": "k", "task": "t", "payload": b"", **other})]
    call, more = enqueue_call("q", jobs, KEEP, "", 9)
    assert isinstance(call, EnqueueCall)
    assert more == job_arguments(jobs)


@pytest.mark.parametrize(
    ("entry", "body", "more"),
    [
        (Complete(LEASE, b"done"), b"done", b""),
        (Complete(LEASE, b"done", 5), b"done", b'{"ttl":5}'),
        (Complete(LEASE, b"", then=Continuation("q", NewJob(id="n", task="t", payload=b"p"))), b"p", b">n\0t"),
        (Retried(LEASE, ErrorRecord(type="E", message="m")), b'{"type":"E"', b'{"name":"retry"'),
    ],
    ids=["complete", "complete briefly", "continue", "retry"],
)
def test_settlements_are_packed_as_their_group_says(entry: Settlement, body: bytes, more: bytes) -> None:
    packed = SettlementArguments._make(settlement_arguments(entry))
    assert packed.token == (7).to_bytes(6, "big") + (2).to_bytes(4, "big") + b"j"
    assert packed.body.startswith(body)
    assert packed.more.startswith(more)
    assert bool(packed.more) is bool(more)


def test_a_flat_list_that_was_cut_off_is_refused() -> None:
    assert list(in_groups([b"r", b"raw", -1], ClaimedFields)) == [(b"r", b"raw", -1)]
    with pytest.raises(ValueError, match="zip"):
        list(in_groups([b"r", b"raw"], ClaimedFields))


def test_a_function_is_named_after_its_call() -> None:
    assert function(KeepRunsCall) == f"{library.NAME}_keep_runs".encode()
