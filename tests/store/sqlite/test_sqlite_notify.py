"""Ends of runs are told to a listener in few datagrams, with their results; callers who ask at once share work."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
from support import eventually

from holdfast.core.state import State
from holdfast.store.contract import Answer, Complete, Finished, NewJob, Session
from holdfast.store.sqlite import SqliteStore, notify
from holdfast.store.sqlite.notify import MOST_BYTES, MOST_RESULT_BYTES, MOST_TOLD
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


async def test_many_long_results_are_told_in_datagrams_that_are_not_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    monkeypatch.setattr(notify, "_send", lambda address, message: sent.append(message))
    result = b"x" * MOST_RESULT_BYTES
    told = [Finished("q", f"j{number}", number, State.COMPLETED, result) for number in range(MOST_TOLD)]
    notify.notify("127.0.0.1:1/secret", told)
    assert len(sent) > 1
    assert max(len(message) for message in sent) < MOST_BYTES + 2 * MOST_RESULT_BYTES
    assert [end for message in sent for end in notify._decode(message)] == told


async def test_a_datagram_of_one_who_does_not_know_the_address_is_not_heard() -> None:
    heard: list[object] = []
    listener = await notify.SqliteListener(lambda: heard.append("wake"), heard.append).open(other_processes=True)
    place, _, secret = listener.address.partition("/")
    host, _, port = place.partition(":")
    end = notify._encode([Finished("q", "j", 1, State.COMPLETED, b'"forged"')])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for message in (b"wake", end, b"", secret[:-1].encode() + b"_" + end, secret.encode() + b"wake"):
                sender.sendto(message, (host, int(port)))
        await eventually(lambda: heard)
    finally:
        listener.close()
    assert heard == ["wake"]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("length", [MOST_RESULT_BYTES, MOST_RESULT_BYTES + 1])
async def test_a_short_result_is_told_and_a_long_one_asked_for(count: int, length: int, tmp_path: Path) -> None:
    worker = Session(id="w", name="w", host="-", pid=0, queues=("q",), lease_ms=600_000)
    heard: list[Finished] = []
    store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db")
    await store.open()
    listener = await store.listen(lambda: None, heard.append)
    try:
        batch = [NewJob(id=f"j{n}", task="t", payload=b"", watcher=listener.address) for n in range(count)]
        await store.enqueue("q", batch)
        await store.register(worker)
        turn = await store.settle_and_claim(worker, (), ("q",), count)
        result = b'"' + b"x" * (length - 2) + b'"'
        await store.settle_and_claim(worker, [Complete(job.lease, result) for job in turn.claimed], (), 0)
        await eventually(lambda: len(heard) == count)
    finally:
        listener.close()
        await store.close()
    assert {end.id for end in heard} == {job.id for job in batch}
    assert {end.result for end in heard} == {result if length <= MOST_RESULT_BYTES else None}
