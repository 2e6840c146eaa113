"""Each fast path leaves the tables, and gives the answers, that the slow path beside it does."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.chain import ChainRef
from holdfast.core.declaration import Declaration
from holdfast.core.envelope import Envelope
from holdfast.core.policy import Overrides
from holdfast.core.state import State
from holdfast.store.contract import (
    Complete,
    Conflict,
    Continuation,
    DedupSpec,
    Finished,
    NewJob,
    Released,
    Session,
)
from holdfast.store.sqlite import SqliteStore, sql
from holdfast.store.sqlite import tx as tx_module
from holdfast.store.sqlite.connection import thread
from holdfast.store.sqlite.transition import enqueue, fast, settle
from holdfast.store.sqlite.transition.claim import claim, lane
from holdfast.store.sqlite.transition.fast import queues as many_queues
from holdfast.store.sqlite.transition.row import COLUMNS, packed
from holdfast.store.sqlite.tx import Tx
from holdfast.testing import ManualClock

WORKER = Session(id="w", name="w", host="-", pid=0, queues=("q",), lease_ms=600_000)
Scene = Callable[[SqliteStore], Awaitable[object]]
Tables = dict[str, list[tuple[object, ...]]]


async def left_by(scene: Scene, path: Path) -> tuple[object, Tables]:
    """Return what a scene answers, and all that it leaves in the file."""
    store = SqliteStore(f"sqlite:///{path}", clock=ManualClock(1_000_000))
    await store.open()
    try:
        await store.register(WORKER)
        answers = await scene(store)
        return answers, await store.database.writer.ask(lambda connection, after: _tables(connection))
    finally:
        await store.close()


def _tables(connection: Any) -> Tables:
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found: Tables = {}
    for name in names:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        kept = [column for column in columns if (name, column) not in TURNS]
        found[name] = sorted(connection.execute(f"SELECT {', '.join(kept)} FROM {name}").fetchall(), key=repr)
    events = [column[1] for column in connection.execute("PRAGMA table_info(holdfast_event)")]
    ordered = f"SELECT {', '.join(events[1:])} FROM holdfast_event ORDER BY run, seq"
    found["holdfast_event"] = connection.execute(ordered).fetchall()  # the order that matters is that of each run
    found["holdfast_meta"] = [row for row in found["holdfast_meta"] if row[0] != "epoch"]
    return found


TURNS = {("holdfast_queue", "turn"), ("holdfast_queue", "keyless_turn")}
"""Where no keys take turns, nothing depends on how many turns there were: the fast path of claim counts none."""


async def compare(scene: Scene, folder: Path, slow: Callable[[], None]) -> tuple[object, Tables]:
    """A scene has the same answers and leaves the same rows once `slow` has switched the fast path off."""
    fast_answers, fast_tables = await left_by(scene, folder / "fast.db")
    slow()
    slow_answers, slow_tables = await left_by(scene, folder / "slow.db")
    assert fast_answers == slow_answers
    for name, rows in slow_tables.items():
        assert fast_tables[name] == rows, name
    return slow_answers, slow_tables


def watching(
    monkeypatch: pytest.MonkeyPatch, owner: object, name: str, nothing: object = None
) -> tuple[list[object], Callable[[], None]]:
    """Return a list that notes what a fast path answered, and what switches it off."""
    real, answers = getattr(owner, name), []

    def noted(*values: object, **named: object) -> object:
        answers.append(real(*values, **named))
        return answers[-1]

    monkeypatch.setattr(owner, name, noted)
    return answers, lambda: monkeypatch.setattr(owner, name, lambda *values, **named: nothing)


def jobs(count: int = 8, **fields: Any) -> list[NewJob]:
    return [NewJob(id=f"j{number}", task="t", payload=b"%d" % number, **fields) for number in range(count)]


MIXED = [
    *jobs(3),
    NewJob(id="keyed", task="t", payload=b"", key="k"),
    NewJob(id="other", task=None, payload=b"", key="l", priority=7),
    NewJob(id="again", task="t", payload=b"", key="k", priority=-3),
    NewJob(id="later", task="t", payload=b"", delay_ms=5_000, key="k"),
    NewJob(id="past", task="t", payload=b"", run_at_ms=17, result_ttl_ms=1_000),
    NewJob(id="own", task="t", payload=b"x" * 100_000, overrides=Overrides(timeout_ms=5), fresh=True),
    NewJob(id="told", task="t", payload=b"", watcher="here:1", envelope=Envelope(tags=("red",)).encoded()),
]


@pytest.mark.parametrize("batch", [jobs(), jobs(key="k"), jobs(delay_ms=60_000), MIXED], ids=lambda batch: batch[-1].id)
@pytest.mark.parametrize("history", ["", "payloads"])
async def test_a_batch_that_is_enqueued_at_once_is_as_if_each_came_alone(
    batch: Sequence[NewJob], history: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        if history:
            await store.declare([Declaration(queue="q", settings={"history": history})])
        await store.settle_and_claim(WORKER, (), ("q",), 5, park=True)
        return await store.enqueue("q", batch)

    done_fast, slow = watching(monkeypatch, enqueue, "enqueue_fresh")
    await compare(scene, tmp_path, slow)
    assert [answers is not None for answers in done_fast] == [True]


def test_fast_paths_say_which_slow_path_they_equal() -> None:
    at_once = Path(thread.__file__).with_name("at_once.py")
    for path in [*Path(fast.__path__[0]).glob("[!_]*.py"), at_once]:
        text = path.read_text("utf-8")
        assert "the slow path" in text
        assert f"Compared by tests/store/sqlite/{Path(__file__).name}" in text


def test_a_packed_row_has_the_values_of_its_columns_and_so_has_the_statement() -> None:
    dedup = DedupSpec(key="once", window_ms=50)
    job = NewJob(
        id="j", task="t", payload=b"p", priority=3, key="k", delay_ms=20, result_ttl_ms=9, dedup=dedup, envelope=b"{}",
        overrides=Overrides(timeout_ms=5),
    )  # fmt: skip
    row = packed(Tx(sqlite3.connect(":memory:"), {}, 1_000, {}, []), "q", job, 7, 2, 4)
    assert dict(zip(COLUMNS, row, strict=True)) == {
        "run": 7, "queue": "q", "id": "j", "state": "scheduled", "task": "t", "priority": 3, "key": "k",
        "run_at_ms": 1_020, "enqueued_at_ms": 1_000, "result_ttl_ms": 9, "dedup_key": "once", "dedup_until_ms": 1_050,
        "overrides": b'{"timeout_ms":5}', "envelope": b"{}", "payload": b"p", "chain": 2, "position": 4,
        "ready_at_ms": 1_020,
    }  # fmt: skip
    statement = sql.statements("holdfast")["enqueue"]["insert"]
    columns, values = (part.strip("() \n").replace("\n", "").split(",") for part in statement.split("VALUES"))
    names = [name.strip() for name in ",".join(columns).partition("(")[2].split(",")]
    assert names == list(COLUMNS)
    marks = [mark.strip() for mark in values]
    assert marks == ["?"] * len(COLUMNS)


async def test_a_batch_with_an_id_that_is_taken_is_not_enqueued_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        return [await store.enqueue("q", jobs(3)), await store.enqueue("q", [*jobs(1), *MIXED[3:]])]

    done_fast, slow = watching(monkeypatch, enqueue, "enqueue_fresh")
    await compare(scene, tmp_path, slow)
    assert [answers is not None for answers in done_fast] == [True, False]


@pytest.mark.parametrize("room", [3, 100])
async def test_a_claim_of_plain_jobs_is_as_if_they_took_turns(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        batch = [NewJob(id=f"j{n}", task="t", payload=b"", priority=n % 3, run_at_ms=n % 2 + 1) for n in range(9)]
        await store.enqueue("q", batch)
        return await store.settle_and_claim(WORKER, (), ("q",), room)

    done_fast, slow = watching(monkeypatch, claim, "take_plain")
    turn, _ = await compare(scene, tmp_path, slow)
    assert len(turn.claimed) == min(room, 9)  # type: ignore[attr-defined]
    assert [runs is not None for runs in done_fast] == [True]


@pytest.mark.parametrize("continued", [False, True])
async def test_a_batch_that_is_completed_at_once_is_as_if_each_came_alone(
    continued: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        await store.enqueue("q", jobs(4))
        turn = await store.settle_and_claim(WORKER, (), ("q",), 4)
        done = [Complete(job.lease, b'"%d"' % number) for number, job in enumerate(turn.claimed)]
        if continued:
            done = [Complete(each.lease, b"null", then=_next(each)) for each in done]
        first = await store.settle_and_claim(WORKER, done, ("q",), 4)
        over = [Complete(job.lease, b"true") for job in first.claimed]
        return [first, await store.settle_and_claim(WORKER, over, ("q",), 4)]

    done_fast, slow = watching(monkeypatch, settle, "complete_all")
    _, tables = await compare(scene, tmp_path, slow)
    assert [answers is not None for answers in done_fast] == ([True, True] if continued else [True])
    assert len(tables["holdfast_job"]) == (8 if continued else 4)


async def test_a_watched_batch_is_completed_at_once_and_its_watchers_hear_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[list[Finished]] = []
    monkeypatch.setattr(tx_module, "notify", lambda address, told: heard.append(sorted(told, key=lambda end: end.run)))

    async def scene(store: SqliteStore) -> object:
        await store.declare([Declaration(queue="q", settings={"result_ttl": 0.001})])
        await store.enqueue("q", [*jobs(3, watcher="here:1"), NewJob(id="unheard", task="t", payload=b"")])
        await store.enqueue("q", [NewJob(id="other", task="t", payload=b"", watcher="here:2")])
        turn = await store.settle_and_claim(WORKER, (), ("q",), 4)
        done = [Complete(job.lease, b'"%d"' % number) for number, job in enumerate(turn.claimed)]
        return await store.settle_and_claim(WORKER, done, ("q",), 0)

    done_fast, slow = watching(monkeypatch, settle, "complete_all")
    _, tables = await compare(scene, tmp_path, slow)
    assert [answers is not None for answers in done_fast] == [True]
    assert len(heard) == 2
    assert heard[0] == heard[1]
    assert [(end.id, end.state) for end in heard[0]] == [(f"j{n}", State.COMPLETED) for n in range(3)]
    assert len(tables["holdfast_watch"]) == 1


@pytest.mark.parametrize("how", ["chain", "absorbed"])
async def test_a_watched_batch_with_chains_or_absorbed_runs_is_not_completed_at_once(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        await store.enqueue("q", jobs(2, watcher="here:1"))
        turn = await store.settle_and_claim(WORKER, (), ("q",), 2)
        if how == "absorbed":  # the second dispatch of an active job merges with it when it comes back
            await store.enqueue("q", jobs(1, watcher="here:1"), Conflict(on_conflict="update"))
            await store.settle_and_claim(WORKER, [Released(job.lease) for job in turn.claimed], (), 0)
            turn = await store.settle_and_claim(WORKER, (), ("q",), 2)
        done = [Complete(job.lease, b"1") for job in turn.claimed]
        if how == "chain":
            done = [Complete(each.lease, b"null", then=_next(each)) for each in done]
        return await store.settle_and_claim(WORKER, done, (), 0)

    done_fast, slow = watching(monkeypatch, settle, "complete_all")
    await compare(scene, tmp_path, slow)
    assert done_fast[-1] is None


def _next(entry: Complete) -> Continuation:
    return Continuation("q", NewJob(id=f"{entry.lease.id}/1", task="t", payload=b"next"))


@pytest.mark.parametrize("odd", [b"\xff", b"\0", b"null"], ids=["bytes", "NUL", "own TTL"])
async def test_a_batch_with_a_result_of_another_kind_is_not_completed_at_once(
    odd: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        await store.enqueue("q", jobs(2))
        turn = await store.settle_and_claim(WORKER, (), ("q",), 2)
        first, second = turn.claimed
        done = [Complete(first.lease, b"1"), Complete(second.lease, odd, 5_000 if odd == b"null" else None)]
        settled = await store.settle_and_claim(WORKER, done, (), 0)
        return [settled, await store.get("q", "j0"), await store.get("q", "j1")]

    done_fast, slow = watching(monkeypatch, settle, "complete_all")
    await compare(scene, tmp_path, slow)
    assert done_fast == [None]


async def test_small_work_in_the_callers_thread_is_as_if_the_writer_had_done_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        answers = await store.enqueue("q", MIXED)
        turn = await store.settle_and_claim(WORKER, (), ("q",), 3)
        done = await store.settle_and_claim(WORKER, [Complete(turn.claimed[0].lease, b"1")], ("q",), 1)
        gone = await store.cancel("q", "later")
        return [answers, turn, done, gone, await store.get("q", "j0"), await store.chain("q", "j0")]

    done_fast, slow = watching(monkeypatch, thread, "at_once")
    answers, _ = await compare(scene, tmp_path, slow)
    assert answers[-1].ref == ChainRef("q", "j0", 1)  # type: ignore[index]
    assert sum(done is not None for done in done_fast) >= 4


KEYS = [None, "a", "b", "a\0b", "c", "b", "limited", "own", "é", "a", None, "limited", "own", "own", "b"]


@pytest.mark.parametrize("room", [4, 9, 100])
@pytest.mark.parametrize("limit", [None, 1, 2])
async def test_lanes_that_are_checked_together_are_as_if_each_were_checked_alone(
    room: int, limit: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        settings = {"key_concurrency": limit, "key_limits": {"limited": 1}}
        await store.declare([Declaration(queue="q", settings=settings)])
        await store.limit_key("q", "own", 2)
        batch = [NewJob(id=f"j{n}", task="t", payload=b"", key=key, priority=n % 3) for n, key in enumerate(KEYS)]
        answers = [await store.enqueue("q", batch[:9]), await store.enqueue("q", batch[9:])]
        turns = [await store.settle_and_claim(WORKER, (), ("q",), room)]
        await store.configure("q", {"key_concurrency": 3})
        for _ in range(3):
            done = [Complete(job.lease, b"1") for job in turns[-1].claimed]
            turns.append(await store.settle_and_claim(WORKER, done, ("q",), room))
        return [*answers, *turns]

    done_fast, slow = watching(monkeypatch, lane, "recheck_together", False)
    answers, tables = await compare(scene, tmp_path, slow)
    assert True in done_fast
    assert (tables["holdfast_lane"] == []) == (room > 4)
    assert sum(len(turn.claimed) for turn in answers[2:]) <= len(KEYS)  # type: ignore[index]


async def test_lanes_with_a_rate_for_each_key_are_checked_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        await store.declare([Declaration(queue="q", settings={"key_rate": {"count": 1, "per": 1}})])
        await store.enqueue("q", [NewJob(id=f"j{n}", task="t", payload=b"", key=f"k{n % 3}") for n in range(9)])
        return await store.settle_and_claim(WORKER, (), ("q",), 9)

    done_fast, slow = watching(monkeypatch, lane, "recheck_together", False)
    turn, _ = await compare(scene, tmp_path, slow)
    assert set(done_fast) == {False}
    assert len(turn.claimed) == 3  # type: ignore[attr-defined]


async def test_a_batch_with_keys_is_completed_at_once_and_frees_their_lanes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        await store.declare([Declaration(queue="q", settings={"key_concurrency": 1})])
        await store.enqueue("q", [NewJob(id=f"j{n}", task="t", payload=b"", key=f"k{n % 3}") for n in range(6)])
        first = await store.settle_and_claim(WORKER, (), ("q",), 6)
        done = [Complete(job.lease, b"1") for job in first.claimed]
        second = await store.settle_and_claim(WORKER, done, ("q",), 6)
        done = [Complete(job.lease, b"1") for job in second.claimed]
        return [first, second, await store.settle_and_claim(WORKER, done, ("q",), 6)]

    done_fast, slow = watching(monkeypatch, settle, "complete_all")
    turns, tables = await compare(scene, tmp_path, slow)
    assert [answers is not None for answers in done_fast] == [True, True]
    assert [len(turn.claimed) for turn in turns] == [3, 3, 0]  # type: ignore[attr-defined]
    assert tables["holdfast_lane"] == []


MANY = (*(f"q{number}" for number in range(3 * many_queues.FEW)), "odd\0name")
BROAD = Session(id="b", name="b", host="-", pid=0, queues=MANY, lease_ms=600_000)


async def test_a_turn_of_many_queues_is_as_if_each_had_been_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(store: SqliteStore) -> object:
        await store.register(BROAD)
        await store.declare([Declaration(queue="q7", settings={"result_ttl": 9})])
        for queue in ("q3", "q40", "q7", "odd\0name"):
            await store.enqueue(queue, jobs(3))
        await store.enqueue("q9", jobs(1, delay_ms=5_000))
        await store.enqueue("q11", jobs(4, key="k"))
        turns = [await store.settle_and_claim(BROAD, (), MANY, 5)]
        for _ in range(4):
            done = [Complete(job.lease, b"1") for job in turns[-1].claimed]
            turns.append(await store.settle_and_claim(BROAD, done, MANY, 5, park=True))
        await store.configure("q3", {"priority": 3})
        turns.append(await store.settle_and_claim(BROAD, (), MANY, 5))
        return turns

    asked, _ = watching(monkeypatch, settle, "claim")
    monkeypatch.setattr(many_queues, "STEP", 5)
    turns, _ = await compare(scene, tmp_path, lambda: monkeypatch.setattr(many_queues, "FEW", 1_000))
    assert len(asked) < 2 * len(MANY) * len(turns)  # type: ignore[arg-type]
    assert sum(len(turn.claimed) for turn in turns) == 16  # type: ignore[attr-defined]
    assert turns[-1].settings["q3"].priority == 3  # type: ignore[index]


async def test_settings_that_have_not_changed_are_the_same_object(tmp_path: Path) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    await store.open()
    try:
        session = Session(id="b", name="b", host="-", pid=0, queues=MANY[:-1], lease_ms=600_000)
        await store.register(session)
        first, second = [await store.settle_and_claim(session, (), session.queues, 5) for _ in range(2)]
        await store.configure("q3", {"priority": 3})
        third = await store.settle_and_claim(session, (), session.queues, 5)
    finally:
        await store.close()
    assert first.settings is second.settings
    assert third.settings["q3"].priority == 3


async def test_a_batch_of_several_queues_is_completed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(store: SqliteStore) -> object:
        await store.register(BROAD)
        await store.declare([Declaration(queue="q7", settings={"result_ttl": 9})])
        for queue in ("q3", "q5", "q7"):
            await store.enqueue(queue, jobs(2, watcher="here:1", key="k" if queue == "q5" else None))
        turn = await store.settle_and_claim(BROAD, (), ("q3", "q5", "q7"), 6)
        done = [Complete(job.lease, b'"%d"' % number) for number, job in enumerate(turn.claimed)]
        return [turn, await store.settle_and_claim(BROAD, done, (), 0)]

    done_fast, slow = watching(monkeypatch, settle, "complete_all")
    (turn, _), tables = await compare(scene, tmp_path, slow)  # type: ignore[misc]
    assert [answers is not None for answers in done_fast] == [True]
    assert len(turn.claimed) == 6
    assert tables["holdfast_watch"] == tables["holdfast_lane"] == []
