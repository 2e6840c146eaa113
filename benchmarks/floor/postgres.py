"""The floor of PostgreSQL: bare psycopg doing the least that a queue must do, with nothing on top."""

from __future__ import annotations

from typing import Any

from benchmarks.script import CostWatch, main, require
from benchmarks.system import PAYLOAD, Place, System

CHUNK = 1_000
TURN = 100

SYSTEMS = (
    System(
        name="floor",
        script=__name__,
        store="postgres",
        measures=("enqueue", "bulk", "drain"),
        note=f"bare psycopg; bulk: least table, {CHUNK:,} a commit, no events; drain: one statement settles and"
        f" claims {TURN}, with events",
    ),
)
SCHEMA = """
CREATE TABLE job (
    run bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL, state text NOT NULL DEFAULT 'waiting',
    token text, payload text NOT NULL
);
CREATE UNIQUE INDEX job_id ON job (id);
CREATE INDEX job_waiting ON job (run) WHERE state = 'waiting';
CREATE TABLE event (seq bigint GENERATED ALWAYS AS IDENTITY, run bigint, id text, transition text, at timestamptz);
"""
INSERT = "INSERT INTO job (id, payload) SELECT * FROM unnest(%s::text[], %s::text[])"
TURN_OVER = f"""
WITH done AS (
    UPDATE job SET state = 'completed', token = NULL
    WHERE run = ANY (%s) AND token = %s AND state = 'active' RETURNING run, id
), next AS (
    SELECT run FROM job WHERE state = 'waiting' ORDER BY run LIMIT {TURN} FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE job SET state = 'active', token = %s FROM next WHERE job.run = next.run
    RETURNING job.run, job.id, job.payload
), told AS (
    INSERT INTO event (run, id, transition, at)
    SELECT run, id, 'complete', clock_timestamp() FROM done
    UNION ALL SELECT run, id, 'claim', clock_timestamp() FROM taken
)
SELECT run, id, payload FROM taken
"""


def connect(place: Place) -> Any:
    import psycopg

    connection = psycopg.connect(place.url, autocommit=True)
    connection.execute(SCHEMA)
    return connection


def enqueue(place: Place) -> CostWatch:
    return insert(place, 1)


def bulk(place: Place) -> CostWatch:
    return insert(place, CHUNK)


def insert(place: Place, chunk: int) -> CostWatch:
    with connect(place) as connection, CostWatch() as watch:
        fill(connection, place.jobs, chunk)
    return watch


def fill(connection: Any, jobs: int, chunk: int) -> None:
    for start in range(0, jobs, chunk):
        ids = [f"{number:032d}" for number in range(start, min(start + chunk, jobs))]
        connection.execute(INSERT, (ids, [PAYLOAD] * len(ids)))


def drain(place: Place) -> CostWatch:
    with connect(place) as connection:
        fill(connection, place.jobs, CHUNK)
        held: list[int] = []
        with CostWatch() as watch:
            for turn in range(place.jobs):
                found = connection.execute(TURN_OVER, (held, str(turn - 1), str(turn))).fetchall()
                held = [run for run, _, _ in found]
                if not held:
                    break
        done = connection.execute("SELECT count(*) FROM job WHERE state = 'completed'").fetchone()[0]
    require(done, place.jobs)
    return watch


if __name__ == "__main__":
    main(globals())
