"""The floor: bare sqlite3 doing the least that a queue must do, with nothing on top."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from typing import Any

from benchmarks.floor import specimen
from benchmarks.script import CostWatch, main, require
from benchmarks.system import PAYLOAD, Place, System

CHUNK = 1_000
TURN = 100

SYSTEMS = (
    System(
        name="floor",
        script=__name__,
        store="sqlite",
        measures=("enqueue", "bulk", "drain"),
        note=f"bare sqlite3, WAL, NORMAL; bulk: our own rows, {CHUNK:,} a commit, no events;"
        f" drain: least table, {TURN} claimed and {TURN} completed a commit, with events",
    ),
)

DRAIN_SCHEMA = """
CREATE TABLE job (
    run INTEGER PRIMARY KEY, id TEXT NOT NULL, state TEXT NOT NULL, token TEXT, payload BLOB NOT NULL
);
CREATE INDEX job_waiting ON job (run) WHERE state = 'waiting';
CREATE TABLE event (
    seq INTEGER PRIMARY KEY, run INTEGER NOT NULL, id TEXT NOT NULL,
    transition TEXT NOT NULL, at_ms INTEGER NOT NULL
);
"""
CLAIM = f"""
UPDATE job SET state = 'active', token = ?
WHERE run IN (SELECT run FROM job WHERE state = 'waiting' ORDER BY run LIMIT {TURN})
RETURNING run, id, payload
"""
COMPLETE = "UPDATE job SET state = 'completed', token = NULL WHERE run = ? AND token = ? AND state = 'active'"
APPEND = "INSERT INTO event (run, id, transition, at_ms) VALUES (?, ?, ?, unixepoch())"


def enqueue(place: Place) -> CostWatch:
    return insert(place, chunk=1)


def bulk(place: Place) -> CostWatch:
    return insert(place, CHUNK)


def insert(place: Place, chunk: int) -> CostWatch:
    """Our own rows are in our own table; they were made before the watch started."""
    found = specimen.take(place)
    statement, rows = found.insertion(), found.rows(place.jobs)
    chunks = [list(itertools.islice(rows, chunk)) for _ in range(0, place.jobs, chunk)]
    with closing(connect(place)) as connection:
        connection.executescript(";".join(found.schema))
        with CostWatch() as watch:
            for each in chunks:
                with Transaction(connection):
                    connection.executemany(statement, each)
    return watch


def drain(place: Place) -> CostWatch:
    with closing(connect(place)) as connection:
        connection.executescript(DRAIN_SCHEMA)
        with Transaction(connection):
            jobs = ((f"{number:032d}", PAYLOAD.encode()) for number in range(place.jobs))
            connection.executemany("INSERT INTO job (id, state, payload) VALUES (?, 'waiting', ?)", jobs)
        with CostWatch() as watch:
            turn_over(connection)
        done = connection.execute("SELECT count(*) FROM job WHERE state = 'completed'").fetchone()[0]
    require(done, place.jobs)
    return watch


def turn_over(connection: sqlite3.Connection) -> None:
    """Each transaction completes what the one before it claimed, and claims anew."""
    held: Sequence[Any] = ()
    for turn in itertools.count():
        with Transaction(connection):
            connection.executemany(COMPLETE, [(run, str(turn - 1)) for run, _, _ in held])
            connection.executemany(APPEND, [(run, id, "complete") for run, id, _ in held])
            held = connection.execute(CLAIM, [str(turn)]).fetchall()
            connection.executemany(APPEND, [(run, id, "claim") for run, id, _ in held])
        if not held:
            return


def connect(place: Place) -> sqlite3.Connection:
    connection = sqlite3.connect(place.url, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("PRAGMA synchronous = normal")
    return connection


class Transaction:
    """What happens in the block is committed at its end, all of it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def __enter__(self) -> None:
        self._execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._execute("ROLLBACK" if kind else "COMMIT")


if __name__ == "__main__":
    main(globals())
