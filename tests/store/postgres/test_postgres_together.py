"""What many ask at once goes together, and each still gets its own answer, once."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from proxy import Proxy
from schemas import drop
from servers import postgres
from support import eventually

from holdfast.core.bound import SMALL_BYTES
from holdfast.store.contract import Complete, Conflict, Finished, NewJob, Session
from holdfast.store.postgres import PostgresStore

_numbers = itertools.count(1)


@pytest.fixture
def schema() -> Iterator[str]:
    name = f"together_{os.getpid()}_{next(_numbers)}"
    yield name
    drop(name)


def fresh(id: str, watcher: str | None = None) -> NewJob:
    return NewJob(id=id, task="t", payload=b"", fresh=True, watcher=watcher)


async def test_many_single_enqueues_are_two_transactions(schema: str) -> None:
    """The first goes alone and at once; those that come meanwhile go with the next call."""
    store = PostgresStore(postgres().url(schema))
    await store.open()
    answers = await asyncio.gather(*(store.enqueue("q", [fresh(f"j{number}")]) for number in range(50)))
    assert [(answer.status, answer.id) for (answer,) in answers] == [("queued", f"j{number}") for number in range(50)]
    assert len({answer.run for (answer,) in answers}) == 50
    with psycopg.connect(postgres().url().partition("?")[0]) as connection:
        count = f'SELECT count(DISTINCT xid), sum(coalesce(span, 1)) FROM "{schema}".event'
        assert connection.execute(count).fetchone() == (2, 50)
    await store.close()


async def test_fresh_jobs_whose_answer_was_lost_come_in_once_and_are_queued(schema: str) -> None:
    async with Proxy(postgres().port) as proxy:
        there = postgres().url(schema)
        store = PostgresStore(there.replace(f":{postgres().port}/", f":{proxy.port}/"))
        await store.open()
        for warm in ("a", "b"):  # on one connection, so that the statement is prepared and has one reply
            await store.enqueue("q", [fresh(warm)])
        proxy.cut_at = {proxy.replies + 1}
        answers = await store.enqueue("q", [fresh(id) for id in ("c", "d", "e")])
        assert proxy.cuts == 1
        assert [(answer.status, answer.id) for answer in answers] == [("queued", id) for id in ("c", "d", "e")]
        log = (await store.events()).events
        assert [(event.id, event.run) for event in log[2:]] == [(answer.id, answer.run) for answer in answers]
        await store.close()


async def test_an_id_that_was_not_made_for_the_call_after_all_is_a_duplicate(schema: str) -> None:
    store = PostgresStore(postgres().url(schema))
    await store.open()
    await store.enqueue("q", [fresh("a")])
    again, new = await store.enqueue("q", [fresh("a"), fresh("b")])
    assert (again.status, new.status) == ("duplicate", "queued")
    await store.close()


async def test_whoever_waits_hears_of_all_that_ended_in_one_turn(schema: str) -> None:
    """More of them than one message of the server can hold."""
    store = PostgresStore(postgres().url(schema))
    session = Session(id="s", name="w", host="-", pid=0, queues=("q",), lease_ms=60_000)
    await store.open()
    await store.register(session)
    heard: list[Finished] = []
    ear = await store.listen(lambda: None, heard.append)
    ids = [f"{number:0200}" for number in range(100)]
    answers = await store.enqueue("q", [fresh(id, ear.address) for id in ids])
    claimed = (await store.settle_and_claim(session, [], ("q",), 100)).claimed
    await store.settle_and_claim(session, [Complete(job.lease, b"null") for job in claimed], ("q",), 0)
    await eventually(lambda: len(heard) >= 100)
    assert {(each.id, each.run) for each in heard} == {(answer.id, answer.run) for answer in answers}
    await store.close()


def named(id: str) -> NewJob:
    return NewJob(id=id, task="t", payload=id.encode())


async def test_many_jobs_with_ids_of_their_own_come_in_as_they_were_given(schema: str) -> None:
    store = PostgresStore(postgres().url(schema))
    await store.open()
    ids = [f"j{number * 7919 % 300:03}" for number in range(300)]
    answers = await store.enqueue("q", [named(id) for id in ids])
    assert [(answer.status, answer.id) for answer in answers] == [("queued", id) for id in ids]
    assert [answer.run for answer in answers] == list(range(answers[0].run, answers[0].run + 300))
    assert [(event.id, event.run) for event in (await store.events()).events] == [
        (answer.id, answer.run) for answer in answers
    ]
    worker = Session(id="w", name="w", host="h", pid=1, queues=("q",), lease_ms=15_000, slots=300)
    await store.register(worker)
    claimed = (await store.settle_and_claim(worker, [], ("q",), 300)).claimed
    assert [(each.lease.id, each.payload) for each in claimed] == [(id, id.encode()) for id in ids]
    await store.close()


async def test_many_jobs_of_which_one_is_there_or_comes_twice_have_the_answers_of_single_ones(schema: str) -> None:
    store = PostgresStore(postgres().url(schema))
    await store.open()
    ((there,), (over,)) = await store.enqueue("q", [named("050")]), await store.enqueue("q", [named("over")])
    ids = [f"{number:03}" for number in range(200)]
    for queued in (199, 0):
        answers = {answer.id: answer for answer in await store.enqueue("q", [named(id) for id in ids])}
        assert sum(answer.status == "queued" for answer in answers.values()) == queued
        assert (answers["050"].status, answers["050"].run) == ("duplicate", there.run)
    twice = await store.enqueue("q", [*(named(f"x{id}") for id in ids), named("x007")])
    assert [answer.status for answer in twice] == ["queued"] * 200 + ["duplicate"]
    assert twice[-1].run == twice[7].run
    assert over.run < min(answer.run for answer in twice)
    await store.close()


async def test_calls_with_the_same_ids_in_any_order_do_not_wait_in_a_circle(schema: str) -> None:
    """Each id comes in once, whoever is first, and nobody hears of a deadlock."""
    stores = [PostgresStore(postgres().url(schema)) for _ in range(4)]
    for store in stores:
        await store.open()
    for number in range(10):
        ids = [f"{number}-{kind}{at:03}" for at in range(60) for kind in "aB_é"]  # which collations put in other orders
        calls = [[*ids[cut:], *ids[:cut]] for cut in (0, 60, 120, 180)]
        found = await asyncio.gather(
            *(store.enqueue("q", [named(id) for id in call]) for store, call in zip(stores, calls, strict=True)),
            stores[0].enqueue("q", [named(id) for id in reversed(ids[:99])]),  # too few to be taken for new
        )
        statuses = [answer.status for answers in found for answer in answers]
        assert statuses.count("queued") == len(ids)
        assert len({answer.run for answers in found for answer in answers}) == len(ids)
    for store in stores:
        await store.close()


async def test_large_jobs_go_by_themselves(schema: str) -> None:
    """Five hundred of a megabyte each would be more than PostgreSQL takes in one statement."""
    store = PostgresStore(postgres().url(schema))
    await store.open()
    jobs = [NewJob(id=f"j{n}", task="t", payload=b"x" * (SMALL_BYTES + 1), fresh=True) for n in range(6)]
    answers = await asyncio.gather(*(store.enqueue("q", [job]) for job in jobs))
    assert [answer.status for (answer,) in answers] == ["queued"] * 6
    ((transactions,),) = await store.caller.rows(f'SELECT count(DISTINCT xid) FROM "{schema}".event', ())
    assert transactions == 6
    await store.close()


async def test_calls_for_one_id_come_in_by_the_order_in_which_they_began(schema: str) -> None:
    """Each has a connection of its own, of which any may be the quickest."""
    store = PostgresStore(postgres().url(schema))
    await store.open()
    latest = Conflict(on_conflict="update")
    for number in range(30):
        jobs = [NewJob(id=f"j{number}", task="t", payload=f"{at}".encode()) for at in range(6)]
        calls = [store.enqueue("q", [job], latest, f"r{number}-{at}") for at, job in enumerate(jobs)]
        answers = await asyncio.gather(*calls)
        assert [answer.status for (answer,) in answers] == ["queued", *["updated"] * 5]
        record = await store.get("q", f"j{number}")
        assert record is not None
        assert record.payload == b"5"
    await store.close()


@pytest.mark.parametrize("more", [{"key": "k"}, {"delay_ms": 60_000}], ids=str)
async def test_jobs_with_a_key_or_a_time_go_together_in_their_order(schema: str, more: dict[str, Any]) -> None:
    store = PostgresStore(postgres().url(schema))
    await store.open()
    jobs = [NewJob(id=f"j{number * 7 % 50:02}", task="t", payload=b"", fresh=True, **more) for number in range(50)]
    answers = [answer for (answer,) in await asyncio.gather(*(store.enqueue("q", [job]) for job in jobs))]
    assert [(answer.status, answer.id) for answer in answers] == [("queued", job.id) for job in jobs]
    assert [answer.run for answer in answers] == sorted(answer.run for answer in answers)
    with psycopg.connect(postgres().url().partition("?")[0]) as connection:
        assert connection.execute(f'SELECT count(DISTINCT xid) FROM "{schema}".event').fetchone() == (2,)
    await store.close()
