"""Faults of the store and of the ways to it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing

from .board import CLOCK_MS
from .field import Field
from .place import Server
from .proxy import Way


async def kill_server(field: Field) -> None:
    """The server is killed; what it had acknowledged, it has written."""
    assert isinstance(field.place, Server)
    field.place.kill()
    try:
        await field.wait(0.0, 1.5)
    finally:
        await asyncio.to_thread(field.place.start)


async def pause_server(field: Field) -> None:
    """The server hangs, at times for longer than every lease."""
    assert isinstance(field.place, Server)
    field.place.pause()
    try:
        await field.wait(0.2, 2.5)
    finally:
        field.place.resume()


async def cut(field: Field) -> None:
    """Connections break, several times: of one process, or of all."""
    ways = _some(field)
    for _ in range(field.rng.randint(1, 6)):
        for way in ways:
            way.cut()
        await field.wait(0.05, 0.4)


async def half_open(field: Field) -> None:
    """Connections stay open, and nothing comes through: a firewall forgot them. In the end they break."""
    hanging = [side for way in _some(field) for side in way.hang()]
    try:
        await field.wait(1.0, 3.0)
    finally:
        for side in hanging:
            side.abort()


async def latency(field: Field) -> None:
    """Every byte is late."""
    ways = _some(field)
    for way in ways:
        way.delay = field.rng.uniform(0.02, 0.3)
    try:
        await field.wait(1.0, 3.0)
    finally:
        for way in ways:
            way.delay = 0.0


async def full_disk(field: Field) -> None:
    """Nothing can be written. Once there is room, the operator does what the store's docs ask for."""
    field.place.disk.fill()
    try:
        await field.wait(0.5, 2.0)
    finally:
        field.place.disk.free()
        await asyncio.to_thread(field.place.mend)


async def clock_step(field: Field) -> None:
    """The store's clock is set, forwards or back, and after a while set right."""
    field.board[CLOCK_MS] = round(field.leases(0.5, 6.0) * 1000) * field.rng.choice((-1, 1))
    try:
        await field.wait(0.5, 3.0)
    finally:
        field.board[CLOCK_MS] = 0


async def write_lock(field: Field) -> None:
    """Somebody else writes to the file for a long time."""
    await asyncio.to_thread(_hold, field, "BEGIN IMMEDIATE", field.leases(0.3, 2.0))


async def long_read(field: Field) -> None:
    """Somebody reads for a long time, so that the write-ahead log cannot be emptied."""
    await asyncio.to_thread(_hold, field, "BEGIN", field.leases(1.0, 4.0))


def _hold(field: Field, begin: str, seconds: float) -> None:
    import time

    path = field.place.url(None).removeprefix("sqlite:///").partition("?")[0]
    try:
        with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as connection:
            connection.execute(begin)
            connection.execute("SELECT count(*) FROM holdfast_meta").fetchall()
            time.sleep(seconds)
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError:
        return  # others were quicker for all that time: no fault this time


def _some(field: Field) -> list[Way]:
    """Return the way of one process, or the ways of all."""
    ways = [actor.way for actor in field.crew.actors if actor.way is not None]
    return ways if field.rng.random() < 0.3 else [field.rng.choice(ways)]


SQLITE = (write_lock, long_read)
SERVER = (kill_server, pause_server, cut, half_open, latency)
ANY = (full_disk, clock_step)
