"""Calls that meet a completion in the middle: each answers with what is there when both are done."""

from __future__ import annotations

import asyncio
import functools
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import psycopg
import pytest
from schemas import drop
from servers import postgres
from support import PATIENCE, eventually, postgres_value, transitions, until, working

from holdfast import Continued, Holdfast, Job, Retry, State
from holdfast.core.chain import BlockerRef, ChainRef, continuation_id
from holdfast.store.contract import KEEP, Claimed, Complete, Conflict, Continuation, NewJob, Session
from holdfast.store.postgres import PostgresStore
from holdfast.store.postgres.call import arguments
from holdfast.store.postgres.listen import ParkedRecheck

_numbers = itertools.count(1)
SESSION = Session(id="s", name="w", host="-", pid=0, queues=("q",), lease_ms=60_000)


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(postgres().url().partition("?")[0], autocommit=True)


@pytest.fixture
def schema() -> Iterator[str]:
    name = f"meeting_{os.getpid()}_{next(_numbers)}"
    yield name
    drop(name)


@asynccontextmanager
async def opened(schema: str) -> AsyncIterator[PostgresStore]:
    """A store with one worker's session."""
    store = PostgresStore(postgres().url(schema))
    await store.open()
    await store.register(SESSION)
    yield store
    await store.close()


def waiting(connection: psycopg.Connection[Any], function: str, count: int = 1) -> bool:
    """True when so many calls of a function wait for a lock."""
    found = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s", (f"%.{function}(%",)
    ).fetchone()
    return found is not None and found[0] >= count


def going_on(job: Claimed) -> Complete:
    """Return the completion of a job with which its chain goes on."""
    chain = job.chain or ChainRef("q", job.lease.id, job.lease.run)
    id = continuation_id(chain, job.position + 1, "q")
    return Complete(job.lease, b"", then=Continuation("q", NewJob(id=id, task="t", payload=b"1")))


async def met(store: PostgresStore, function: str, call: Callable[[], Awaitable[Any]], *, chain: bool = False) -> Any:
    """Return the answer of a call that began before the completion of the id's run, with a successor, was committed.

    With `chain`, the run has gone on already, and it is the next job that is completed.
    """
    await store.enqueue("q", [NewJob(id="j", task="t", payload=b"1")])
    (job,) = (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed
    if chain:
        (job,) = (await store.settle_and_claim(SESSION, [going_on(job)], ("q",), 1)).claimed
    await store.enqueue("q", [NewJob(id="j", task="t", payload=b"2")], Conflict(on_conflict="update"))
    with connect() as other:
        async with store.begin() as transaction:
            await transaction.settle(SESSION, Complete(job.lease, b"done"))
            task = asyncio.ensure_future(call())
            await eventually(lambda: waiting(other, function))
    return await asyncio.wait_for(task, PATIENCE)


async def claimed(store: PostgresStore) -> list[bytes]:
    """Return the payloads of what can be claimed."""
    return [job.payload for job in (await store.settle_and_claim(SESSION, [], ("q",), 10)).claimed]


either = pytest.mark.parametrize("chain", [False, True], ids=["a job", "a chain"])


@either
async def test_a_cancel_finds_the_successor_that_has_just_become_the_next_run(schema: str, chain: bool) -> None:
    async with opened(schema) as store:
        answer = await met(store, "cancel", lambda: store.cancel("q", "j"), chain=chain)
        assert (answer.reply, answer.state) == ("ok", State.WAITING)
        assert await claimed(store) == [], "a cancelled payload never runs"


@either
async def test_a_delete_takes_the_run_that_holds_the_id_by_then(schema: str, chain: bool) -> None:
    async with opened(schema) as store:
        assert await met(store, "delete", lambda: store.delete("q", "j"), chain=chain) == "ok"
        assert await claimed(store) == []


@either
async def test_the_deletion_of_a_chain_takes_the_run_that_holds_the_id_by_then(schema: str, chain: bool) -> None:
    async with opened(schema) as store:
        deleted = await met(store, "delete_chain", lambda: store.delete_chain("q", "j"), chain=chain)
        assert (deleted.reply, deleted.chains) == ("ok", 1)
        assert await claimed(store) == []


@either
async def test_a_completion_from_outside_is_of_the_run_that_holds_the_id_by_then(schema: str, chain: bool) -> None:
    """The id was never without a run to be completed."""
    async with opened(schema) as store:
        call = functools.partial(store.complete_chain, "q", "j", None, b"outside")
        assert await met(store, "complete_chain", call, chain=chain) == "ok"
        found = await store.get("q", "j")
        assert found is not None
        assert (found.state, found.result) == (State.COMPLETED, b"outside")
        assert await claimed(store) == []


@either
async def test_one_run_is_meant_whatever_the_id_has_by_then(schema: str, chain: bool) -> None:
    async with opened(schema) as store:
        call = functools.partial(store.complete_chain, "q", "j", 1, b"outside")
        assert await met(store, "complete_chain", call, chain=chain) == "wrong_state"
        assert await claimed(store) == [b"2"]


async def test_a_completion_from_outside_that_meets_a_deletion_finds_nothing(schema: str) -> None:
    async with opened(schema) as store:
        await store.enqueue("q", [NewJob(id="j", task="t", payload=b"1")])
        with connect() as other, connect() as looking:
            with other.transaction():
                other.execute(f"SELECT {schema}.delete(NULL, 'q', 'j')")
                completing = asyncio.ensure_future(store.complete_chain("q", "j", None, b"outside"))
                await eventually(lambda: waiting(looking, "complete_chain"))
            assert await asyncio.wait_for(completing, PATIENCE) == "missing"


async def test_a_completion_waits_for_a_busy_queue_into_which_its_chain_goes_on(schema: str) -> None:
    """The row of a queue with keys is only tried for; inside a handler's transaction nobody else would try again."""
    app = Holdfast(postgres().url(schema))

    @app.task(queue="keyed")
    async def second(n: int) -> int:
        return n * 2

    @app.task(queue="first", retry=Retry(failures=1))
    async def first(job: Job, n: int) -> Continued[int]:
        async with job.complete() as tx:
            tx.result = then = job.continue_with(second.options(key="k"), n)
        return then

    async with working(app, "first", "keyed"):
        await second.options(key="k").call(0)
        with connect() as other, connect() as looking:
            with other.transaction():
                other.execute(f"SELECT 1 FROM {schema}.queue WHERE name = 'keyed' FOR UPDATE")
                handle = await first.options(job_id="one").enqueue(21)
                await eventually(lambda: waiting(looking, "complete_in_transaction"))
            assert await handle.result(PATIENCE) == 42
        assert await transitions(app, "one") == ["enqueue", "claim", "complete"]


async def test_a_job_with_a_key_that_was_committed_while_a_worker_parked_wakes_it(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its producer saw nobody parked, and the worker no job: only a second look finds it before the poll."""
    monkeypatch.setattr(ParkedRecheck, "PAUSES", (0.02,) * 1000)
    woken = asyncio.Event()
    async with opened(schema) as store:
        ear = await store.listen(woken.set, lambda finished: None)
        session = msgspec.structs.replace(SESSION, id="listening", address=ear.address)
        await store.register(session)
        with connect() as other, other.transaction():
            job = NewJob(id="j", task="t", payload=b"", fresh=True, key="k")
            other.execute(store.caller.statement("enqueue"), arguments.enqueue(None, "q", [job], KEEP))
            assert (await store.settle_and_claim(session, [], ("q",), 1, park=True)).claimed == []
        await asyncio.wait_for(woken.wait(), PATIENCE)
        assert len((await store.settle_and_claim(session, [], ("q",), 1)).claimed) == 1


async def test_a_call_that_meets_an_update_being_undone_is_done_again(schema: str) -> None:
    """PostgreSQL takes an update for two while another is rolled back (seen once in 60,000 turns), and says so."""
    async with opened(schema) as store:
        with connect() as connection:
            connection.execute(f"CREATE SEQUENCE {schema}.tries")
            connection.execute(
                f"CREATE FUNCTION {schema}.meet() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN"
                f" IF nextval('{schema}.tries') < 3 THEN RAISE 'new multixact has more than one updating member: 0 3[1"
                " (nokeyupd), 2 (keysh), 2 (nokeyupd)]' USING ERRCODE = 'internal_error'; END IF;"
                f" RETURN currval('{schema}.tries'); END $$"
            )
        assert await postgres_value(store, "SELECT holdfast.meet()", repeatable=False) == 3


# --- the order of locks


@pytest.fixture
def no_deadlock() -> Iterator[None]:
    """The server had to end no circle by force. Its processes tell what they counted when they end."""
    before = deadlocks()
    yield
    assert deadlocks() == before


def deadlocks() -> int:
    with connect() as connection:
        ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'holdfast'"
        until(lambda: connection.execute(ours).fetchone() == (0,))
        found = connection.execute("SELECT sum(deadlocks) FROM pg_stat_database").fetchone()
    assert found is not None
    return int(found[0])


async def begun(store: PostgresStore, *ids: str) -> list[Claimed]:
    """Return the second jobs of chains that these ids have begun, all of them claimed."""
    await store.enqueue("q", [NewJob(id=id, task="t", payload=b"1") for id in ids])
    firsts = (await store.settle_and_claim(SESSION, [], ("q",), len(ids))).claimed
    return (await store.settle_and_claim(SESSION, [going_on(job) for job in firsts], ("q",), len(ids))).claimed


async def meet(schema: str, run: int, *calls: tuple[str, Callable[[], Awaitable[Any]]]) -> list[Any]:
    """Return the answers of calls that begin one after another, while somebody else has this run locked."""
    tasks = []
    with connect() as holder, connect() as looking:
        with holder.transaction():
            holder.execute(f"SELECT 1 FROM {schema}.job WHERE run = {run} FOR UPDATE")
            for function, call in calls:
                tasks.append(asyncio.ensure_future(call()))
                await eventually(functools.partial(waiting, looking, function), f"{function} waits")
        return await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)


def turn(store: PostgresStore, *settlements: Complete) -> tuple[str, Callable[[], Awaitable[Any]]]:
    return "take_turn", functools.partial(store.settle_and_claim, SESSION, settlements, (), 0)


@pytest.mark.usefixtures("no_deadlock")
async def test_a_delete_and_the_end_of_a_chain_wait_in_one_order(schema: str) -> None:
    async with opened(schema) as store:
        (job,) = await begun(store, "j")
        assert job.chain is not None
        delete = functools.partial(store.delete, "q", "j")
        assert (await meet(schema, job.chain.run, ("delete", delete), turn(store, Complete(job.lease, b""))))[0] == "ok"


@pytest.mark.usefixtures("no_deadlock")
async def test_updates_of_many_ids_and_the_end_of_a_chain_wait_in_one_order(schema: str) -> None:
    async with opened(schema) as store:
        (job,) = await begun(store, "j")
        assert job.chain is not None
        jobs = [NewJob(id=id, task="t", payload=b"2") for id in ("j", job.lease.id)]
        update = functools.partial(store.enqueue, "q", jobs, Conflict(on_conflict="update"))
        end = turn(store, Complete(job.lease, b""))
        first, second = (await meet(schema, job.chain.run, ("enqueue", update), end))[0]
        assert first.status in ("successor", "queued"), "before the end, or after it"
        assert second.status == "refused"


@pytest.mark.usefixtures("no_deadlock")
async def test_updates_of_many_ids_and_chains_that_go_on_wait_in_one_order(schema: str) -> None:
    async with opened(schema) as store:
        jobs = await begun(store, "b", "a")  # whose next jobs have another order by id
        older = min(job.chain.run for job in jobs if job.chain)
        news = [NewJob(id=id, task="t", payload=b"2") for id in ("a", "b")]
        update = functools.partial(store.enqueue, "q", news, Conflict(on_conflict="update"))
        on = turn(store, *(going_on(job) for job in jobs))
        answers, _ = await meet(schema, older, ("enqueue", update), on)
        assert [answer.status for answer in answers] == ["successor"] * 2


@pytest.mark.usefixtures("no_deadlock")
@pytest.mark.parametrize("watcher", [None, "hf_00:1"], ids=["an update", "a call"])
async def test_many_ids_of_which_one_has_just_gone_on_wait_for_each_other_with_none_held(
    schema: str, watcher: str | None
) -> None:
    """What comes before what is another thing by then: the first job of a chain comes after the jobs that end."""
    async with opened(schema) as store:
        news = [NewJob(id=id, task="t", payload=b"1", watcher=watcher) for id in ("first", "middle", "last")]
        await store.enqueue("q", news)
        first, middle, last = (await store.settle_and_claim(SESSION, [], ("q",), 3)).claimed
        conflict = Conflict() if watcher else Conflict(on_conflict="update")
        call = functools.partial(store.enqueue, "q", news, conflict)
        with connect() as holder, connect() as looking:
            with holder.transaction():
                holder.execute(f"SELECT 1 FROM {schema}.job WHERE run = {middle.lease.run} FOR UPDATE")
                async with store.begin() as transaction:
                    await transaction.settle(SESSION, going_on(first))
                    calling = asyncio.ensure_future(call())
                    await eventually(lambda: waiting(looking, "enqueue"), "it waits for the first job")
                await eventually(functools.partial(waits_for, looking, holder), "it waits for the middle one")
                (after,) = (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed
                both = [Complete(last.lease, b""), Complete(after.lease, b"")]
                ending = asyncio.ensure_future(store.settle_and_claim(SESSION, both, (), 0))
                await eventually(lambda: ending.done() or waiting(looking, "take_turn"), "the turn ends, or waits")
            await asyncio.wait_for(asyncio.gather(calling, ending), PATIENCE)


def waits_for(looking: psycopg.Connection[Any], holder: psycopg.Connection[Any]) -> bool:
    """True when some call waits for what this connection has locked."""
    found = looking.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))", (holder.info.backend_pid,)
    ).fetchone()
    return found is not None and found[0] > 0


@pytest.mark.usefixtures("no_deadlock")
async def test_the_deletion_of_all_who_wait_and_the_end_of_a_chain_wait_in_one_order(schema: str) -> None:
    async with opened(schema) as store:
        (job,) = await begun(store, "j")
        assert job.chain is not None
        await store.enqueue("q", [NewJob(id="b", task="t", payload=b"", blockers=(BlockerRef("q", "j"),))])
        delete = functools.partial(store.delete_chain, "q", "j", cascade=True)
        end = turn(store, Complete(job.lease, b""))
        _, deleted = await meet(schema, job.chain.run, end, ("delete_chain", delete))
        assert deleted.reply == "ok"


@pytest.mark.usefixtures("no_deadlock")
async def test_reaping_and_the_end_of_what_others_wait_for_wait_in_one_order(schema: str) -> None:
    async with opened(schema) as store:
        gone = msgspec.structs.replace(SESSION, id="gone")
        await store.register(gone)
        await store.enqueue("q", [NewJob(id=id, task="t", payload=b"") for id in ("x", "y", "z")])
        await store.settle_and_claim(gone, [], ("q",), 2)
        (last,) = (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed
        for id, others in (("earlier", ("y", "z")), ("later", ("x", "z"))):
            refs = tuple(BlockerRef("q", other) for other in others)
            job = NewJob(id=id, task="t", payload=b"", blockers=refs, on_blocker_failed="cancel")
            (answer,) = await store.enqueue("q", [job])
        for id in ("x", "y"):
            await store.cancel("q", id, "signal")
        with connect() as connection:
            connection.execute(f"UPDATE {schema}.session SET expires_at_ms = 0 WHERE id = 'gone'")
        reap = functools.partial(store.reap, "q")
        reaped, _ = await meet(schema, answer.run, ("reap", reap), turn(store, Complete(last.lease, b"")))
        assert reaped.sessions == ("gone",)


PAUSE = 5
"""The number of an advisory lock that a test has while it lets turns go no further."""


def pause_turns(connection: psycopg.Connection[Any], schema: str) -> None:
    """Let a turn that is about to change its session wait until `PAUSE` is free."""
    connection.execute(
        f"CREATE FUNCTION {schema}.pause() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" PERFORM pg_advisory_xact_lock_shared({PAUSE}); RETURN NULL; END $$"
    )
    connection.execute(
        f"CREATE TRIGGER pause BEFORE UPDATE ON {schema}.session FOR EACH STATEMENT"
        f" WHEN (current_query() LIKE '%.take_turn(%') EXECUTE FUNCTION {schema}.pause()"
    )
    connection.execute(f"SELECT pg_advisory_lock({PAUSE})")


@pytest.mark.usefixtures("no_deadlock")
async def test_a_reap_after_an_outage_does_not_wait_for_the_session_of_a_turn(schema: str) -> None:
    """A turn locks its session lightly and then changes it; the reap has moved its lease, and wants the whole lock."""
    async with opened(schema) as store:
        with connect() as holder, connect() as looking:
            holder.execute(f"UPDATE {schema}.session SET expires_at_ms = 0")
            pause_turns(holder, schema)
            ending = asyncio.ensure_future(store.settle_and_claim(SESSION, [], ("q",), 1))
            await eventually(functools.partial(waits_for, looking, holder), "the turn has locked its session")
            holder.execute(f"UPDATE {schema}.pulse SET heard_at_ms = heard_at_ms - 50000")
            reaping = asyncio.ensure_future(store.reap("q"))
            await eventually(lambda: reaping.done() or waiting(looking, "reap"), "the reap is over, or waits")
            holder.execute(f"SELECT pg_advisory_unlock({PAUSE})")
            reaped, done = await asyncio.wait_for(asyncio.gather(reaping, ending), PATIENCE)
        assert reaped.shifted_ms > 0
        assert (reaped.sessions, done.evicted) == ((), False)


def enqueue_in(connection: psycopg.Connection[Any], store: PostgresStore, id: str) -> None:
    """Enqueue a job in the transaction of this connection."""
    job = NewJob(id=id, task="t", payload=b"1")
    connection.execute(store.caller.statement("enqueue"), arguments.enqueue(None, "q", [job], KEEP))


@pytest.mark.usefixtures("no_deadlock")
async def test_an_update_that_finds_a_new_run_late_does_not_wait_for_its_end_with_others_held(schema: str) -> None:
    """What has an id is locked at the beginning, when it had none: by now a turn ends it, and a chain that is held."""
    async with opened(schema) as store:
        (last,) = await begun(store, "a")
        news = [NewJob(id=id, task="t", payload=b"2") for id in ("a", "b", "c")]
        with connect() as holder, connect() as looking:
            with holder.transaction():
                enqueue_in(holder, store, "b")
                updating = asyncio.ensure_future(store.enqueue("q", news, Conflict(on_conflict="update")))
                await eventually(functools.partial(waits_for, looking, holder), "it has 'a', and waits for 'b'")
                await store.enqueue("q", [NewJob(id="c", task="t", payload=b"1")])
                (new,) = (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed
                both = [Complete(last.lease, b""), Complete(new.lease, b"")]
                ending = asyncio.ensure_future(store.settle_and_claim(SESSION, both, (), 0))
                await eventually(lambda: waiting(looking, "take_turn"), "the turn has 'c', and waits for 'a'")
            answers, _ = await asyncio.wait_for(asyncio.gather(updating, ending), PATIENCE)
        assert [answer.status for answer in answers] == ["queued", "updated", "queued"]


@pytest.mark.usefixtures("no_deadlock")
async def test_an_enqueue_with_ids_in_hand_does_not_wait_for_the_end_of_a_job_that_has_another(schema: str) -> None:
    """Whoever updates waits for its ids, with a chain held, and a turn that ends the job for that chain."""
    async with opened(schema) as store:
        (last,) = await begun(store, "a")
        watched = NewJob(id="m", task="t", payload=b"1", watcher="hf_00:1")  # so that its end is written in its row
        await store.enqueue("q", [watched])
        (other,) = (await store.settle_and_claim(SESSION, [], ("q",), 1)).claimed
        both = [Complete(last.lease, b""), Complete(other.lease, b"")]
        plain = [NewJob(id=id, task="t", payload=b"1") for id in ("k", "l", "m")]
        news = [NewJob(id=id, task="t", payload=b"2") for id in ("a", "k")]
        with connect() as holder, connect() as looking:
            with holder.transaction():
                enqueue_in(holder, store, "l")
                enqueuing = asyncio.ensure_future(store.enqueue("q", plain))
                await eventually(functools.partial(waits_for, looking, holder), "it has 'k', and waits for 'l'")
                updating = asyncio.ensure_future(store.enqueue("q", news, Conflict(on_conflict="update")))
                await eventually(lambda: waiting(looking, "enqueue", 2), "it has 'a', and waits for 'k'")
                ending = asyncio.ensure_future(store.settle_and_claim(SESSION, both, (), 0))
                await eventually(lambda: waiting(looking, "take_turn"), "the turn has 'm', and waits for 'a'")
            answers, *_ = await asyncio.wait_for(asyncio.gather(enqueuing, updating, ending), PATIENCE)
        assert [answer.status for answer in answers] == ["queued", "duplicate", "duplicate"]


@pytest.mark.usefixtures("no_deadlock")
async def test_a_turn_has_locked_a_cancelled_chain_before_those_who_wait(schema: str) -> None:
    """What is not completed with the others is settled behind them, though it ends before those who wait for both."""
    async with opened(schema) as store:
        jobs = {job.chain.id: job for job in await begun(store, "a", "b") if job.chain}
        refs = tuple(BlockerRef("q", id) for id in "ab")
        await store.enqueue("q", [NewJob(id="w", task="t", payload=b"", blockers=refs, on_blocker_failed="ignore")])
        await store.cancel("q", "a", "signal")
        chain = jobs["a"].chain
        assert chain is not None
        outside = functools.partial(store.complete_chain, "q", "a", None, b"outside")
        end = turn(store, Complete(jobs["b"].lease, b""), going_on(jobs["a"]))
        assert (await meet(schema, chain.run, ("complete_chain", outside), end))[0] == "ok"


@pytest.mark.usefixtures("no_deadlock")
async def test_claims_of_the_same_queues_in_another_order_do_not_wait_for_their_marks(schema: str) -> None:
    """A claim that went far leaves a mark, and one that finds nothing behind it removes it."""
    both = msgspec.structs.replace(SESSION, queues=("q", "r", "s"))
    async with opened(schema) as store:
        await store.register(both)
        with connect() as holder, connect() as looking:
            holder.execute(f"INSERT INTO {schema}.front SELECT name, 0, 0, 0, now(), 0 FROM {schema}.queue")
            with holder.transaction():
                holder.execute(f"SELECT FROM {schema}.front WHERE queue = 'r' FOR UPDATE")
                claims = [
                    asyncio.ensure_future(store.settle_and_claim(both, [], queues, 1))
                    for queues in (("q", "r", "s"), ("s", "r", "q"))
                ]
                await eventually(
                    lambda: waiting(looking, "take_turn", sum(not claim.done() for claim in claims)),
                    "each is over, or waits",
                )
            assert [turn.claimed for turn in await asyncio.wait_for(asyncio.gather(*claims), PATIENCE)] == [[], []]


async def test_a_reap_that_waited_for_longer_than_a_lease_leaves_leases_that_were_extended_meanwhile(
    schema: str,
) -> None:
    """They seemed too long to it, as after a clock that was set back, and it ended them."""
    mine = msgspec.structs.replace(SESSION, id="mine", lease_ms=200)
    async with opened(schema) as store:
        await store.register(mine)
        began = await store.now_ms()
        with connect() as other, other.transaction():
            other.execute(f"SELECT FROM {schema}.queue WHERE name = 'q' FOR UPDATE")
            task = asyncio.ensure_future(store.reap("q", but="mine"))
            with connect() as looking:
                await eventually(lambda: waiting(looking, "reap"))

            async def extended() -> bool:
                await store.extend(mine, None)
                return await store.now_ms() > began + 4 * mine.lease_ms

            await eventually(extended)
        await asyncio.wait_for(task, PATIENCE)
        left = await postgres_value(
            store, "SELECT expires_at_ms - holdfast.clock(NULL) FROM holdfast.session WHERE id = 'mine'"
        )
        assert left > -mine.lease_ms / 2, "the reap has ended a lease that was alive"
