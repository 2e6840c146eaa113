"""Short leases: a vanished worker is found out in its time, however rarely the others are heard."""

from __future__ import annotations

import pytest

from holdfast.store.contract import NewJob, Session
from holdfast.store.sqlite import SqliteStore


def session(id: str, lease_ms: int) -> Session:
    return Session(id=id, name=id, host="here", pid=1, queues=("q",), lease_ms=lease_ms, slots=1)


@pytest.mark.parametrize("lease_ms", [300, 600, 1000, 2000, 15_000])
async def test_heartbeats_a_third_of_a_lease_apart_are_no_outage(url: str, lease_ms: int) -> None:
    now = 1_000_000
    store = SqliteStore(url, clock=lambda: now)
    await store.open()
    vanished, survivor = session("vanished", lease_ms), session("survivor", lease_ms)
    await store.register(vanished)
    await store.register(survivor)
    await store.enqueue("q", [NewJob(id="job", task=None, payload=b"1")])
    turn = await store.settle_and_claim(vanished, [], ["q"], 1)
    assert len(turn.claimed) == 1
    for _ in range(6):
        now += lease_ms // 3 + 1
        assert not (await store.extend(survivor)).late
    reaped = await store.reap("q", but=survivor.id)
    assert (reaped.sessions, reaped.returned) == (("vanished",), 1)
    await store.close()
