"""A PostgreSQL server whose disk is full: what it says is `StoreFull`, and the store goes on once there is room."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from places import place

from holdfast import Holdfast
from holdfast.errors import StoreFull

FULL = """
CREATE FUNCTION "{0}".full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
END $$;
CREATE TRIGGER full_disk BEFORE INSERT ON "{0}".job FOR EACH ROW EXECUTE FUNCTION "{0}".full_disk();
"""
"""The server's own words: whether a disk can be mounted here to be filled is not for the test to say."""


async def test_a_full_disk_is_told_as_such_and_nothing_was_written(tmp_path: Path) -> None:
    with place("postgres", tmp_path) as url:
        server, _, schema = url.partition("?")
        name = schema.partition("=")[2].partition("&")[0]
        async with Holdfast(f"{url}&patience=0.2") as app:
            kept = await app.queue("mail").enqueue(1)
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(FULL.format(name))
                with pytest.raises(StoreFull, match="no room left in the server; nothing of this call was written"):
                    await app.queue("mail").enqueue(2)
                connection.execute(f'DROP TRIGGER full_disk ON "{name}".job')
            more = await app.queue("mail").enqueue(3)
            assert {job.id for job in (await app.jobs()).jobs} == {kept.id, more.id}
