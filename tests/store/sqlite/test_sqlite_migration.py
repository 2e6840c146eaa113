"""A store that an older Holdfast made is brought up to date, with its jobs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.store.sqlite import sql
from holdfast.testing import drain

NEXT = "ALTER TABLE holdfast_job ADD COLUMN later INTEGER;\nCREATE INDEX holdfast_job_later ON holdfast_job (later);\n"


async def test_a_store_of_an_older_version_is_brought_up_with_its_jobs(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Holdfast(url) as app:
        await app.queue("mail").enqueue("old", job_id="j")
    known = sql.migrations()
    newest = known[-1][0]
    monkeypatch.setattr(sql, "migrations", lambda: [*known, (newest + 1, NEXT)])
    app = Holdfast(url)
    app.queue("mail", handler=lambda payload: payload)
    async with app:
        assert [job.id for job in await drain(app)] == ["j"]
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT value FROM holdfast_meta WHERE name = 'schema'").fetchone() == (newest + 1,)
        assert file.execute("SELECT count(*) FROM holdfast_job WHERE later IS NULL").fetchone() == (1,)


async def test_a_migration_that_fails_leaves_the_store_as_it_was(
    url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Holdfast(url) as app:
        await app.queue("mail").enqueue("old", job_id="j")
    known = sql.migrations()
    monkeypatch.setattr(sql, "migrations", lambda: [*known, (99, NEXT + "SELECT no_such_function();\n")])
    with pytest.raises(Exception, match="no such function"):
        async with Holdfast(url):
            pass
    monkeypatch.undo()
    async with Holdfast(url) as app:
        assert (await app.status("mail", "j")).state == "waiting"
    with closing(sqlite3.connect(path)) as file:
        assert "later" not in {row[1] for row in file.execute("PRAGMA table_info(holdfast_job)")}
