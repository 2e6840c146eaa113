"""PostgreSQL's log: in the order of what happened, also where a transaction gets its number early and commits late."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest
from schemas import drop
from servers import postgres

from holdfast.core.action import OPERATE
from holdfast.store.contract import Conflict, EventPage, NewJob
from holdfast.store.postgres import PostgresStore, sql
from holdfast.store.postgres.scan.position import Late, Position, cut
from holdfast.store.scan import ScanPlan

UPDATE = Conflict(on_conflict="update")
IDS = [f"j{number}" for number in range(8)]
"""Each in a queue of its own name: an update locks the queue."""
_numbers = itertools.count(1)


@pytest.fixture
def url() -> Iterator[str]:
    schema = f"log_{os.getpid()}_{next(_numbers)}"
    yield postgres().url(schema)
    drop(schema)


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(postgres().url().partition("?")[0], options="-c lock_timeout=5s")


def begin(connection: psycopg.Connection[Any]) -> None:
    """The connection is in a transaction, which has its number."""
    connection.execute("SELECT pg_current_xact_id()")


def told(page: EventPage) -> list[tuple[str, str]]:
    return [(event.id, event.transition) for event in page.events]


def job(id: str, number: int = 0) -> NewJob:
    return NewJob(id=id, task="t", payload=str(number).encode())


async def test_a_transaction_that_began_first_and_changes_what_another_made_comes_after_it(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    for number in range(3):
        start = (await store.events("end")).position
        with connect() as early:
            begin(early)
            await store.enqueue("q", [job(f"j{number}")])
            store.join(early).enqueue("q", [job(f"j{number}")], UPDATE)
        page = await store.events(start)
        assert told(page) == [(f"j{number}", "enqueue"), (f"j{number}", "update")]
        scan = store.scan()
        (part,) = scan.plan(plan := ScanPlan(table="events", columns=("transition",), after=start))
        assert [list(map(str, columns["transition"])) for columns in scan.read(plan, part)] == [["enqueue", "update"]]
        scan.close()
    await store.close()


async def test_a_page_that_ends_between_the_two_leaves_the_later_one_to_the_next(url: str) -> None:
    store = PostgresStore(url)
    await store.open()
    with connect() as early:
        begin(early)
        await store.enqueue("q", [job("a"), job("b")])
        first = await store.events(limit=1)
        store.join(early).enqueue("q", [job("b")], UPDATE)
        await store.enqueue("q", [job("c")])
        second = await store.events(first.position, limit=1)
        third = await store.events(second.position, limit=1)
    fourth = await store.events(third.position, limit=1)
    fifth = await store.events(fourth.position, limit=1)
    seen = [told(page) for page in (first, second, third, fourth, fifth)]
    assert seen == [[("a", "enqueue")], [("b", "enqueue")], [("c", "enqueue")], [("b", "update")], []]
    await store.close()


class Story:
    """Transactions that begin, write, commit and roll back in any order, and what a reader must be told of them."""

    def __init__(self, store: PostgresStore, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        self.connections = [connect() for _ in range(4)]
        self.written: dict[int, list[tuple[str, int]]] = {}
        self.happened: dict[str, list[int]] = {}
        self._payloads = itertools.count(1)

    async def step(self) -> None:
        number = self.random.randrange(6)
        if number >= len(self.connections):
            await self._alone()
        elif number not in self.written:
            begin(self.connections[number])
            self.written[number] = []
        elif self.random.random() < 0.7:
            self._write(number)
        else:
            self.end(number, self.random.random() < 0.8)

    def _free(self) -> str | None:
        """Return an id that no open transaction has touched: another one would wait for it."""
        busy = {id for written in self.written.values() for id, _ in written}
        ids = [id for id in IDS if id not in busy]
        return self.random.choice(ids) if ids else None

    async def _alone(self) -> None:
        id, payload = self._free(), next(self._payloads)
        if id is not None:
            await self.store.enqueue(id, [job(id, payload)], UPDATE)
            self.happened.setdefault(id, []).append(payload)

    def _write(self, number: int) -> None:
        own = [id for id, _ in self.written[number]]
        id, payload = self.random.choice([self._free(), *own]), next(self._payloads)
        if id is not None:
            self.store.join(self.connections[number]).enqueue(id, [job(id, payload)], UPDATE)
            self.written[number].append((id, payload))

    def end(self, number: int, commit: bool) -> None:
        written = self.written.pop(number, [])
        connection = self.connections[number]
        connection.commit() if commit else connection.rollback()
        for id, payload in written if commit else ():
            self.happened.setdefault(id, []).append(payload)

    def close(self) -> None:
        for number in range(len(self.connections)):
            self.end(number, True)
            self.connections[number].close()


class Pages:
    """Reads page by page, as a follower does."""

    def __init__(self, store: PostgresStore, queue: str | None) -> None:
        self.store, self.queue = store, queue
        self.position: str | None = None
        self.seen: dict[str, list[int]] = {}

    async def read(self, limit: int) -> int:
        page = await self.store.events(self.position, queue=self.queue, limit=limit)
        assert (page.gap, page.reset) == (0, False)
        for event in page.events:
            if event.transition != OPERATE:
                assert event.payload is not None
                self.seen.setdefault(event.id, []).append(int(event.payload))
        # The position of an event in the middle is as good as the page's, and the next page begins there.
        self.position = page.events[-1].position if page.events else page.position
        return len(page.events)

    def close(self) -> None:
        """Nothing is held open."""


class Batches:
    """Reads in batches of several shares, as Spark does."""

    def __init__(self, store: PostgresStore) -> None:
        self.scan = store.scan()
        self.position: str | None = None
        self.seen: dict[str, list[int]] = {}

    async def read(self, limit: int | None) -> int:
        end = self.scan.reach(self.position, limit)
        names = ("id", "payload", "transition")
        plan = ScanPlan(table="events", columns=names, after=self.position, upto=end, parts=3, least=2)
        count = 0
        for part in self.scan.plan(plan):
            for columns in self.scan.read(plan, part):
                for id, payload, transition in zip(*(columns[name] for name in names), strict=True):
                    count += 1
                    if str(transition) != OPERATE:
                        self.seen.setdefault(str(id), []).append(int(payload))
        assert limit is None or count <= limit
        self.position = end
        return count

    def close(self) -> None:
        self.scan.close()


@pytest.mark.parametrize("seed", range(12))
async def test_whatever_the_order_of_commits_every_event_is_read_once_and_those_of_a_run_in_order(
    url: str, seed: int
) -> None:
    store = PostgresStore(url)
    await store.open()
    for id in IDS:
        await store.configure(id, {"history": "payloads"})
    story, readers = Story(store, seed), [Pages(store, None), Pages(store, "j3"), Batches(store), Batches(store)]
    with closing(story):
        for _ in range(150):
            await story.step()
            if story.random.random() < 0.5:
                await story.random.choice(readers).read(story.random.choice((1, 2, 3, 50)))
    for reader in readers:
        while await reader.read(3):
            pass
        happened = {id: payloads for id, payloads in story.happened.items() if reader is not readers[1] or id == "j3"}
        assert reader.seen == happened
        reader.close()
    await store.close()


def test_what_is_read_after_a_cut_is_the_rest_whatever_was_late() -> None:
    """Read in two steps, up to any number, the log gives what one step gives, each event once."""
    dice = random.Random(5)
    for _ in range(2000):
        after = _some_position(dice, 10)
        upto = _some_position(dice, 20)
        whole, middle = cut(after, upto, upto.number), cut(after, upto, dice.randrange(upto.number + 1))
        events = list(itertools.product(range(1, 25), range(1, 9)))
        read = {each for each in events if _has(whole, each)}
        assert {each for each in events if _has(after, each) or _has(upto, each)} == read
        partly = {each for each in events if _has(middle, each)}
        assert {each for each in events if _has(after, each)} <= partly <= read
        assert Position.parse(str(middle)) == middle


def _some_position(dice: random.Random, most: int) -> Position:
    number = dice.randrange(most + 1)
    edges = sorted(dice.sample(range(1, 9), 4))
    late = [Late(edges[0], edges[1], dice.randrange(number + 1)), Late(edges[2], edges[3], dice.randrange(number + 1))]
    return Position("e", number, tuple(late[: dice.randrange(3)]))


def _has(position: Position, event: tuple[int, int]) -> bool:
    number, xid = event
    late = [each for each in position.late if each.first <= xid <= each.last]
    return number <= (min(each.read for each in late) if late else position.number)


def walked(connection: psycopg.Connection[Any], schema: str, position: str | None, limit: int) -> int:
    """Return how many pages of the log's table one page of events costs, its index included."""
    at = Position() if position is None else Position.parse(position)
    values = {**at.values(), "queue": None, "id": None, "limit": limit}
    text = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql.statements(schema)['events']}"
    connection.execute(text, values)  # what is looked up once for each connection is not counted
    (((found,),),) = connection.execute(text, values).fetchall()
    return int(found["Plan"]["Shared Hit Blocks"] + found["Plan"]["Shared Read Blocks"])


@pytest.mark.parametrize("analyzed", ["empty", "full"])
async def test_a_page_costs_its_own_length_whatever_was_analyzed_and_whoever_is_open(url: str, analyzed: str) -> None:
    """However long the log is, and however long a transaction has been open."""
    store, schema = PostgresStore(url), url.partition("schema=")[2]
    await store.open()
    with connect() as early, connect() as here:
        here.autocommit = True
        if analyzed == "empty":
            here.execute(f'ANALYZE "{schema}".event')
        begin(early)
        await store.enqueue("q", [job(f"j{number}") for number in range(10_000)])
        if analyzed == "full":
            here.execute(f'ANALYZE "{schema}".event')
        middle = (await store.events(limit=5000)).position
        end = (await store.events(middle, limit=10_000)).position
        assert "." in end, "the open transaction is late"
        for position in (None, middle, end):
            assert walked(here, schema, position, 100) < 60, "of over 150"
        store.join(early).enqueue("q", [job("late")])
        early.commit()
        assert walked(here, schema, end, 100) < 120, "it is looked for in the index alone"
        assert told(await store.events(end)) == [("late", "enqueue")]
    await store.close()
