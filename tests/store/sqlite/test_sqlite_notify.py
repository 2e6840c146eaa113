"""Ends of many runs are told to a listener in few datagrams, and callers who ask at once share pieces of work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support import eventually

from holdfast.core.state import State
from holdfast.store.contract import Answer, Finished, NewJob
from holdfast.store.sqlite import SqliteStore, notify
from holdfast.store.sqlite.notify import MOST_TOLD
from holdfast.store.sqlite.produce import SqliteProduce


@pytest.mark.parametrize("count", [1, 2, MOST_TOLD, 2 * MOST_TOLD + 1])
async def test_a_listener_hears_every_end_in_their_order(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Finished] = []
    listener = await notify.SqliteListener(lambda: None, heard.append).open(other_processes=True)
    notify._listeners.pop(listener.address)  # as if it were in another process
    sent: list[bytes] = []
    real = notify._send
    monkeypatch.setattr(notify, "_send", lambda address, message: (sent.append(message), real(address, message)))
    told = [Finished("q", f"j{number}", number, State.COMPLETED) for number in range(count)]
    try:
        notify.notify(listener.address, told)
        await eventually(lambda: len(heard) == count)
    finally:
        listener.close()
    assert heard == told
    assert len(sent) == -(-count // MOST_TOLD)


async def test_single_jobs_of_many_callers_are_taken_in_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = SqliteProduce._enqueue_singles

    async def noted(self: SqliteProduce, queue: str, jobs: list[NewJob]) -> list[Answer]:
        sizes.append(len(jobs))
        return await real(self, queue, jobs)

    monkeypatch.setattr(SqliteProduce, "_enqueue_singles", noted)
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    await store.open()
    try:
        batch = [NewJob(id=f"j{number % 20}", task="t", payload=b"") for number in range(30)]
        answers = await asyncio.gather(*(store.enqueue("q", [job]) for job in batch))
        found = await asyncio.gather(*(store.get("q", job.id) for job in batch))
    finally:
        await store.close()
    assert [answer.status for (answer,) in answers] == ["queued"] * 20 + ["duplicate"] * 10
    assert [job and job.id for job in found] == [job.id for job in batch]
    assert sizes == [1, 29]
